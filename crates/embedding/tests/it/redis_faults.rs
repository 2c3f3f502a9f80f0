//! Servers that are down, hang, or do not let anybody in.

use std::time::{Duration, Instant};

use serde_json::json;
use terrace_embedding::{
    KeyKind, PartitionRule, RedisDatabase, RedisStore, RowStore, TagStyle, cluster_slot,
};
use terrace_testkit::{RedisCluster, RedisServer, wait_until};
use terrace_tiers::TierError;

use crate::redis_level::{LONG, config, found, put, server_of, spec};

const KEYS: i64 = 200;
const PARTITIONS: u32 = 8;

fn cluster() -> RedisCluster {
    // Otherwise none of the others answers when one is gone.
    let options = ["--cluster-require-full-coverage", "no"];
    RedisCluster::start_each(|| options.map(str::to_owned).to_vec())
}

fn table(nodes: &[String], limit: Duration) -> RedisStore {
    let config = config(nodes, json!({ "num_partitions": PARTITIONS }));
    let database = RedisDatabase::connect(&config, PartitionRule::Mix, limit).expect("a database");
    database.table(&spec("t", KeyKind::I64, 1))
}

/// Whether a key is on a server.
fn is_on(cluster: &RedisCluster, server: usize, key: i64) -> bool {
    let partition = PartitionRule::Mix.partition(key, PARTITIONS);
    let name = TagStyle::Hps.table_tag("m", "t").redis_value_key(partition);
    server_of(cluster, cluster_slot(&name)).port == cluster.servers[server].port
}

/// Asks for all keys: what was found, and the error.
fn ask(store: &RedisStore) -> (Vec<bool>, Option<TierError>) {
    let keys: Vec<i64> = (0..KEYS).collect();
    let (mut rows, mut found) = (vec![-1.0; keys.len()], vec![false; keys.len()]);
    let error = store.get_many(&keys, &mut rows, &mut found).err();
    for (key, found) in keys.iter().zip(&found) {
        assert_eq!(rows[*key as usize], if *found { *key as f32 } else { -1.0 });
    }
    (found, error)
}

/// Of all keys those of the other nodes come, and the error names the one that is gone.
#[track_caller]
fn check_others_answer(cluster: &RedisCluster, gone: usize, store: &RedisStore) {
    let (found, error) = ask(store);
    let error = error.expect("a node is gone");
    let want: Vec<bool> = (0..KEYS).map(|key| !is_on(cluster, gone, key)).collect();
    assert!(want.contains(&true) && want.contains(&false));
    assert_eq!(found, want, "{error}");
    assert!(matches!(error, TierError::Unavailable(_) | TierError::TimedOut(_)), "{error}");
    assert!(error.to_string().contains(&cluster.servers[gone].address()), "{error}");
}

#[test]
fn keys_of_the_others_come_while_a_master_is_dead_and_all_when_it_is_back() {
    let mut cluster = cluster();
    let store = table(&cluster.nodes(), LONG);
    put(&store, 0..KEYS);
    assert_eq!(ask(&store), (vec![true; KEYS as usize], None));
    cluster.servers[1].kill();
    (0..3).for_each(|_| check_others_answer(&cluster, 1, &store));
    check_others_answer(&cluster, 1, &table(&cluster.nodes(), LONG));
    let keys: Vec<i64> = (0..KEYS).collect();
    let rows: Vec<f32> = keys.iter().map(|key| *key as f32).collect();
    let error = store.put_many(&keys, &rows).expect_err("a node is gone");
    assert!(error.to_string().contains(&cluster.servers[1].address()), "{error}");
    store.count().expect_err("a node is gone");
    cluster.servers[1].start_again();
    cluster.wait_until_ok();
    wait_until("it is used again", || store.put_many(&keys, &rows).is_ok());
    assert_eq!(ask(&store), (vec![true; KEYS as usize], None));
    assert_eq!(store.count(), Ok(KEYS as u64));
    check_all_dead(cluster, &store);
}

fn check_all_dead(mut cluster: RedisCluster, store: &RedisStore) {
    cluster.servers.iter_mut().for_each(RedisServer::kill);
    for _ in 0..2 {
        let (found, error) = ask(store);
        let error = error.expect("all are gone");
        assert!(matches!(error, TierError::Unavailable(_)), "{error}");
        assert!(found.iter().all(|found| !found));
    }
}

/// A node that hangs answers nothing and refuses nothing.
#[test]
fn keys_of_the_others_come_in_time_while_a_master_hangs() {
    let cluster = cluster();
    let limit = Duration::from_secs(2);
    let store = table(&cluster.nodes(), limit);
    wait_until("all is put", || {
        let keys: Vec<i64> = (0..KEYS).collect();
        let rows: Vec<f32> = keys.iter().map(|key| *key as f32).collect();
        store.put_many(&keys, &rows).is_ok()
    });
    cluster.servers[2].signal("STOP");
    for call in 0..3 {
        let begun = Instant::now();
        check_others_answer(&cluster, 2, &store);
        // The rest is this machine's.
        let bound = limit + Duration::from_secs(2);
        assert!(begun.elapsed() < bound, "call {call} took {:?}", begun.elapsed());
    }
    cluster.servers[2].signal("CONT");
    cluster.wait_until_ok();
    wait_until("it is used again", || ask(&store).1.is_none());
    cluster.servers.iter().for_each(|server| server.signal("STOP"));
    let begun = Instant::now();
    let (found, error) = ask(&store);
    assert!(begun.elapsed() < limit + Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(matches!(error, Some(TierError::TimedOut(_))), "{error:?}");
    assert!(found.iter().all(|found| !found));
}

/// Rows are found and put before, while and after a partition moves to another node.
#[test]
fn a_partition_that_moves_to_another_node_is_followed() {
    let cluster = RedisCluster::start();
    let store = table(&cluster.nodes(), LONG);
    put(&store, 0..KEYS);
    let name = TagStyle::Hps.table_tag("m", "t").redis_value_key(0);
    let slot = cluster_slot(&name).to_string();
    let from = server_of(&cluster, cluster_slot(&name));
    let to = cluster.servers.iter().find(|server| server.port != from.port).expect("another");
    let id = |server: &RedisServer| server.command(&["CLUSTER", "MYID"]).text().to_owned();
    let check = |stage: &str| {
        assert_eq!(ask(&store), (vec![true; KEYS as usize], None), "{stage}");
        put(&store, 0..KEYS);
    };
    to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
    from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    check("before its rows moved");
    from.command(&["MIGRATE", "127.0.0.1", &to.port.to_string(), &name, "0", "5000"]);
    check("while the slot is nobody's");
    for server in [to, from] {
        server.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)]);
    }
    check("after it moved");
    assert_eq!(to.command(&["EXISTS", &name]).int(), 1);
    assert_eq!(store.count(), Ok(KEYS as u64));
}

#[test]
fn a_server_that_is_down_delays_no_start_and_is_used_when_it_is_there() {
    let mut server = RedisServer::start(&[]);
    server.kill();
    let store = table(&[server.address()], LONG);
    let error = store.count().expect_err("it is gone");
    assert!(matches!(error, TierError::Unavailable(_)), "{error}");
    server.start_again();
    wait_until("it is used", || store.count() == Ok(0));
    put(&store, [1]);
    assert_eq!(found(&store, &[1, 2], 1), [true, false]);
}

#[test]
fn a_full_server_says_so_and_gives_what_it_has() {
    let limits = ["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"];
    let server = RedisServer::start(&limits);
    let config = config(&[server.address()], json!({ "max_batch_size": 100 }));
    let database = RedisDatabase::connect(&config, PartitionRule::Mix, LONG).expect("a database");
    let store = database.table(&spec("t", KeyKind::I64, 512));
    store.put_many(&[1], &[1.0; 512]).expect("put");
    let keys: Vec<i64> = (2..2_000).collect();
    let error = store.put_many(&keys, &vec![1.0; keys.len() * 512]).expect_err("4 MB do not fit");
    assert!(matches!(&error, TierError::Full(text) if text.contains("maxmemory")), "{error}");
    assert_eq!(found(&store, &[1], 512), [true]);
}
