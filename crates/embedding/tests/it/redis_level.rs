//! Redis levels for tests: real servers, a configuration as users write it, and a table.

use std::time::Duration;

use serde_json::{Value, json};
use terrace_embedding::{
    KeyKind, PartitionRule, RedisDatabase, RedisLevelConfig, RedisStore, RowStore, TableSpec,
    TagStyle,
};
use terrace_testkit::{RedisCluster, RedisReply, RedisServer};

use crate::fixtures::{changed, from_value};

/// Where a busy machine is not what a test is about.
pub const LONG: Duration = Duration::from_secs(10);

/// With other fields than the smallest configuration of these nodes has.
pub fn config(nodes: &[String], fields: Value) -> RedisLevelConfig {
    let mut db = json!({
        "type": "redis_cluster",
        "address": nodes.join(","),
    });
    for (name, value) in fields.as_object().expect("fields") {
        db[name] = value.clone();
    }
    let (config, _) = from_value(&changed(&[("volatile_db", db)])).expect("a configuration");
    config.redis.expect("a level in Redis")
}

pub fn database(nodes: &[String], fields: Value) -> RedisDatabase {
    RedisDatabase::connect(&config(nodes, fields), PartitionRule::Mix, LONG).expect("a database")
}

pub fn spec(table: &str, key_kind: KeyKind, dim: usize) -> TableSpec {
    TableSpec { tag: TagStyle::Hps.table_tag("m", table), key_kind, dim, default_value: 0.0 }
}

/// One server, and a table of it with rows of one number.
pub fn store(server: &RedisServer, key_kind: KeyKind, fields: Value) -> RedisStore {
    database(&[server.address()], fields).table(&spec("t", key_kind, 1))
}

/// Rows of one number each, the key.
pub fn put(store: &RedisStore, keys: impl IntoIterator<Item = i64>) {
    let keys: Vec<i64> = keys.into_iter().collect();
    let rows: Vec<f32> = keys.iter().map(|key| *key as f32).collect();
    store.put_many(&keys, &rows).expect("put");
}

/// All keys, which have the rows that `put` gave them.
pub fn keys_of(store: &RedisStore) -> Vec<i64> {
    let mut keys = Vec::new();
    let mut each = |batch: &[i64], rows: &[f32]| {
        assert!(batch.iter().zip(rows).all(|(key, row)| *key as f32 == *row), "{batch:?} {rows:?}");
        keys.extend(batch);
        Ok(())
    };
    store.scan(100, &mut each).expect("scan");
    keys.sort_unstable();
    keys
}

/// Which of the keys it has.
pub fn found(store: &RedisStore, keys: &[i64], dim: usize) -> Vec<bool> {
    let (mut rows, mut found) = (vec![0.0; keys.len() * dim], vec![false; keys.len()]);
    store.get_many(keys, &mut rows, &mut found).expect("get");
    found
}

/// Of the hash of a partition: the values of all fields, by field.
pub fn hash(server: &RedisServer, name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let reply = server.command(&["HGETALL", name]);
    let pair = |pair: &[RedisReply]| (pair[0].bytes().to_vec(), pair[1].bytes().to_vec());
    let mut entries: Vec<_> = reply.list().chunks(2).map(pair).collect();
    entries.sort();
    entries
}

/// The server that has a slot.
pub fn server_of(cluster: &RedisCluster, slot: u16) -> &RedisServer {
    let number = match slot {
        0..5461 => 0,
        5461..10923 => 1,
        _ => 2,
    };
    &cluster.servers[number]
}
