//! The Redis tier against a real cluster, and what clusters do to their clients.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::cluster::ClusterClient;
use terrace_testkit::{RedisCluster, wait_until};
use terrace_tiers::record;
use terrace_tiers::{
    BreakerConfig, GuardedTier, PageTier, RedisTier, RedisTierConfig, TierError, TierRecord,
    TierRetention,
};

use crate::pages::{PAGE_BYTES, RECORD_BYTES, get, header, key, keys, put, record_of};

const TIMEOUT: Duration = Duration::from_millis(500);
/// Where a busy machine is not what a test is about.
const LONG_TIMEOUT: Duration = Duration::from_secs(10);

fn config(cluster: &RedisCluster) -> RedisTierConfig {
    let timeout = LONG_TIMEOUT;
    RedisTierConfig { timeout, ..RedisTierConfig::new(cluster.nodes(), RECORD_BYTES) }
}

fn tier(cluster: &RedisCluster) -> RedisTier {
    RedisTier::connect(config(cluster)).expect("a tier")
}

fn redis_key(page: u64) -> String {
    let hex: String = key(page).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("terrace:page:{hex}")
}

/// Enough pages for all nodes, in batches of more than fit in flight.
#[test]
fn a_cluster_keeps_pages_and_may_lose_or_spoil_them() {
    let cluster = RedisCluster::start();
    let in_flight_bytes = 5 * RECORD_BYTES;
    let tier = RedisTier::connect(RedisTierConfig { in_flight_bytes, ..config(&cluster) });
    let tier = tier.expect("a tier");
    let pages: Vec<u64> = (0..300).collect();
    assert_eq!(get(&tier, &pages).expect("a cluster"), vec![false; 300]);
    assert_eq!(put(&tier, &pages).expect("a cluster").kept, vec![true; 300]);
    for server in &cluster.servers {
        let count = server.command(&["DBSIZE"]).int();
        assert!((50..150).contains(&count), "{count} of 300 pages in one of three nodes");
    }
    assert_eq!(get(&tier, &pages).expect("a cluster"), vec![true; 300]);
    assert_eq!(tier.contains_many(&keys([5, 999])).expect("a cluster"), [true, false]);
    tier.remove_many(&keys([5, 6, 999])).expect("a cluster");
    assert_eq!(get(&tier, &[4, 5, 6, 7]).expect("a cluster"), [true, false, false, true]);
    check_garbage(&cluster, &tier);
    check_prefixes(&cluster, &tier, &pages);
    for server in &cluster.servers {
        server.command(&["FLUSHALL"]);
    }
    assert_eq!(get(&tier, &pages).expect("a cluster"), vec![false; 300]);
    assert_eq!(put(&tier, &[1]).expect("a cluster").kept, [true]);
    assert_eq!(get(&tier, &[1]).expect("a cluster"), [true]);
}

/// What begins so goes from every node, and nothing else.
fn check_prefixes(cluster: &RedisCluster, tier: &RedisTier, pages: &[u64]) {
    put(tier, pages).expect("a cluster");
    let first = key(pages[0]).as_bytes()[0];
    let begins_so = |page: &u64| key(*page).as_bytes()[0] == first;
    let want = pages.iter().filter(|page| begins_so(page)).count();
    assert_eq!(tier.remove_prefix(&[first]).expect("a cluster"), want);
    let left: Vec<bool> = pages.iter().map(|page| !begins_so(page)).collect();
    assert_eq!(get(tier, pages).expect("a cluster"), left);
    assert_eq!(tier.remove_prefix(&[first]).expect("a cluster"), 0);
    tier.remove_prefix(&[]).expect("a cluster");
    let left: i64 = cluster.servers.iter().map(|it| it.command(&["DBSIZE"]).int()).sum();
    assert_eq!(left, 0);
}

/// Values that others have written under our keys, one of them of another type.
fn check_garbage(cluster: &RedisCluster, tier: &RedisTier) {
    let client = ClusterClient::new(cluster.nodes().iter().map(|node| format!("redis://{node}")));
    let mut connection = client.expect("a client").get_connection().expect("a cluster");
    let mut flipped = record_of(2);
    flipped[RECORD_BYTES / 2] ^= 1;
    for (page, value) in [(1, b"garbage".to_vec()), (2, flipped), (3, record_of(4))] {
        let mut set = redis::cmd("SET");
        set.arg(redis_key(page)).arg(value).exec(&mut connection).expect("a cluster");
    }
    let mut unlink = redis::cmd("UNLINK");
    unlink.arg(redis_key(4)).exec(&mut connection).expect("a cluster");
    let mut push = redis::cmd("LPUSH");
    push.arg(redis_key(4)).arg("x").exec(&mut connection).expect("a cluster");
    let mut found = Vec::new();
    tier.get_many(&keys([1, 2, 3, 4]), &mut |index, bytes| {
        let page = index as u64 + 1;
        found.push((page, record::decode(bytes, &header(page), PAGE_BYTES).is_err()));
    })
    .expect("a cluster");
    found.sort_unstable();
    assert_eq!(found, [(1, true), (2, true), (3, true)]);
}

#[test]
fn records_expire_after_the_shorter_time_to_live() {
    let cluster = RedisCluster::start();
    let ttl = Some(Duration::from_secs(1000));
    let tier = RedisTier::connect(RedisTierConfig { ttl, ..config(&cluster) }).expect("a tier");
    let records = [record_of(1), record_of(2)];
    let retention = |ttl_ms| TierRetention { ttl_ms, ..TierRetention::default() };
    let records = [
        TierRecord { key: key(1), bytes: &records[0], retention: retention(Some(50_000)) },
        TierRecord { key: key(2), bytes: &records[1], retention: retention(None) },
    ];
    assert_eq!(tier.put_many(&records).expect("a cluster").kept, [true, true]);
    let client = ClusterClient::new(cluster.nodes().iter().map(|node| format!("redis://{node}")));
    let mut connection = client.expect("a client").get_connection().expect("a cluster");
    for (page, longest_ms) in [(1, 50_000), (2, 1_000_000)] {
        let mut ttl = redis::cmd("PTTL");
        let left_ms: i64 = ttl.arg(redis_key(page)).query(&mut connection).expect("a cluster");
        assert!((longest_ms / 2..=longest_ms).contains(&left_ms), "{left_ms} ms of {longest_ms}");
    }
}

/// While calls go on: none panics, none gives a wrong page, each ends, and when the master is back
/// all is as before.
#[test]
fn a_master_that_dies_under_load_is_missed_and_used_again() {
    let mut cluster = RedisCluster::start();
    let tier = tier(&cluster);
    let pages: Vec<u64> = (0..40).collect();
    put(&tier, &pages).expect("a cluster");
    let (ends, calls, failures) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (tier, ends, calls, failures, pages) = (&tier, &ends, &calls, &failures, &pages);
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let result = match reader {
                        0 => get(tier, pages).map(|_| ()),
                        _ => put(tier, pages).map(|_| ()),
                    };
                    calls.fetch_add(1, Ordering::Relaxed);
                    failures.fetch_add(u64::from(result.is_err()), Ordering::Relaxed);
                }
            });
        }
        wait_until("calls go on", || calls.load(Ordering::Relaxed) > 4);
        assert_eq!(failures.load(Ordering::Relaxed), 0);
        cluster.servers[1].kill();
        wait_until("its death is noticed", || failures.load(Ordering::Relaxed) > 2);
        cluster.servers[1].start_again();
        cluster.wait_until_ok();
        ends.store(true, Ordering::Relaxed);
    });
    wait_until("it is used again", || put(&tier, &pages).is_ok());
    assert_eq!(get(&tier, &pages).expect("a cluster"), vec![true; 40]);
}

/// A node that hangs answers nothing and refuses nothing.
#[test]
fn calls_to_a_master_that_hangs_end_in_time() {
    let cluster = RedisCluster::start();
    let hasty = RedisTierConfig { timeout: TIMEOUT, ..config(&cluster) };
    let tier = RedisTier::connect(hasty.clone()).expect("a tier");
    let pages: Vec<u64> = (0..40).collect();
    wait_until("all is put", || put(&tier, &pages).is_ok());
    cluster.servers[2].signal("STOP");
    for call in 0..4 {
        let begun = Instant::now();
        let error = match call {
            0 => get(&tier, &pages).expect_err("a node hangs"),
            1 => put(&tier, &pages).map(|_| ()).expect_err("a node hangs"),
            2 => tier.contains_many(&keys(pages.clone())).expect_err("a node hangs"),
            _ => tier.remove_many(&keys(pages.clone())).expect_err("a node hangs"),
        };
        // To connect, to answer, and once more after the first error; the rest is this machine's.
        let bound = 3 * TIMEOUT + Duration::from_secs(2);
        assert!(begun.elapsed() < bound, "call {call} took {:?}: {error}", begun.elapsed());
        let is_about_it = matches!(error, TierError::TimedOut(_) | TierError::Unavailable(_));
        assert!(is_about_it, "{error}");
    }
    check_breaker_saves_the_time(RedisTier::connect(hasty).expect("a tier"));
    cluster.servers[2].signal("CONT");
    cluster.wait_until_ok();
    wait_until("it is used again", || put(&tier, &pages).is_ok());
    wait_until("all is there", || get(&tier, &pages).is_ok_and(|there| there == [true; 40]));
}

fn check_breaker_saves_the_time(tier: RedisTier) {
    let long =
        BreakerConfig { first_wait_ms: 600_000, longest_wait_ms: 600_000, ..Default::default() };
    let guarded = GuardedTier::new(Box::new(tier), long);
    let keys = keys(0..40);
    (0..3).for_each(|_| drop(guarded.get_many(&keys, &mut |_, _| {})));
    let before = guarded.counters().calls.read_us;
    (0..1000).for_each(|_| drop(guarded.get_many(&keys, &mut |_, _| panic!("it is not asked"))));
    let counters = guarded.counters();
    assert_eq!(
        (counters.calls.read_us, counters.calls.refused, counters.calls.opened),
        (before, 1000, 1)
    );
}
