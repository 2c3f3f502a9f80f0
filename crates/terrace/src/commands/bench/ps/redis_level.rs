//! The level in a Redis Cluster, beside a plain client of the same library.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use serde_json::json;
use terrace_embedding::{
    NodeAddress, PartitionRule, PsConfig, RedisDatabase, RedisLevelConfig, RedisStore, RowStore,
    Surroundings, TableTag,
};

use super::level_rows::{each_load, load_rows, table_spec};
use super::lookups::{DrawnKeys, Get};
use super::ps_options::PsArgs;
use super::report::{Beside, LevelReport, LevelRow};

/// Of one call: a busy machine is not what is measured.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// As HugeCTR cuts tables of a Redis Cluster.
const PARTITIONS: u32 = 8;

/// Rows are removed whatever comes.
pub fn measure(args: &PsArgs, addresses: &str) -> Result<LevelReport> {
    let config = level_config(addresses)?;
    let database = RedisDatabase::connect(&config, PartitionRule::Mix, TIME_LIMIT)?;
    let store = database.table(&table_spec(args.dim));
    let measured = measure_store(args, &store, &config.addresses);
    let removed = each_load(args.stored_rows, args.dim, |keys, _| Ok(store.remove_many(keys)?));
    let report = measured?;
    removed.context("removing what was measured")?;
    Ok(report)
}

fn measure_store(
    args: &PsArgs,
    store: &RedisStore,
    addresses: &[NodeAddress],
) -> Result<LevelReport> {
    let (rows, dim) = (args.stored_rows, args.dim);
    let loaded = load_rows(store, rows, dim)?;
    let mut measured = vec![LevelRow::load(loaded, dim)];
    let plain = Mutex::new(PlainClient::connect(addresses, dim)?);
    let get_ours: &Get<'_> = &|keys, rows, found| Ok(store.get_many(keys, rows, found)?);
    let get_plain: &Get<'_> = &|keys, rows, found| {
        plain.lock().unwrap_or_else(PoisonError::into_inner).get(keys, rows, found)
    };
    for draw in args.draws() {
        let keys = args.stored_lookups.max(args.largest_batch());
        let drawn = DrawnKeys::new(draw, rows, 1, keys);
        for batch in &args.batch {
            let lookups = drawn.lookups(1, *batch, dim);
            let [ours, client] = lookups.rates(args.repeat, [get_ours, get_plain])?;
            let beside = Beside { name: "redis client", rows_per_second: client };
            measured.push(LevelRow::get(&lookups, ours, beside));
        }
    }
    let nodes: Vec<String> = addresses.iter().map(NodeAddress::to_string).collect();
    let heading = format!("redis at {}: {rows} rows of {dim} numbers", nodes.join(","));
    Ok(LevelReport { heading, rows: measured })
}

/// As a user's file would have it.
fn level_config(addresses: &str) -> Result<RedisLevelConfig> {
    let file = json!({
        "supportlonglong": true,
        "models": [{ "model": "terrace_bench", "sparse_files": ["rows"] }],
        "volatile_db": {
            "type": "redis_cluster",
            "address": addresses,
            "num_partitions": PARTITIONS,
        },
    });
    let around = Surroundings { folder: None, model_name: None, cores: 1 };
    let (config, _) = PsConfig::from_value(&file, &around).context("--redis")?;
    config.redis.context("a level in Redis is configured")
}

/// What a program would write that knows where rows are.
struct PlainClient {
    connection: ClusterConnection,
    hashes: Vec<String>,
    dim: usize,
}

impl PlainClient {
    fn connect(addresses: &[NodeAddress], dim: usize) -> Result<Self> {
        let urls = addresses.iter().map(|address| format!("redis://{address}"));
        let client = ClusterClient::new(urls.collect::<Vec<_>>())?;
        let tag: TableTag = table_spec(dim).tag;
        let hashes = (0..PARTITIONS).map(|partition| tag.redis_value_key(partition)).collect();
        Ok(PlainClient { connection: client.get_connection()?, hashes, dim })
    }

    fn get(&mut self, keys: &[i64], rows: &mut [f32], found: &mut [bool]) -> Result<()> {
        let mut places = vec![Vec::new(); self.hashes.len()];
        for (place, key) in keys.iter().enumerate() {
            places[PartitionRule::Mix.partition(*key, PARTITIONS) as usize].push(place);
        }
        let asked = || self.hashes.iter().zip(&places).filter(|(_, places)| !places.is_empty());
        let mut pipeline = cluster_pipe();
        for (hash, places) in asked() {
            let command = pipeline.cmd("HMGET").arg(hash);
            for place in places {
                command.arg(&keys[*place].to_le_bytes());
            }
        }
        let answers: Vec<Vec<Option<Vec<u8>>>> = pipeline.query(&mut self.connection)?;
        for ((_, places), answer) in asked().zip(answers) {
            ensure!(answer.len() == places.len(), "an answer of {} values", answer.len());
            for (place, value) in places.iter().zip(answer) {
                let Some(value) = value else { continue };
                let (numbers, _) = value.as_chunks();
                ensure!(numbers.len() == self.dim, "a value of {} bytes", value.len());
                let row = &mut rows[place * self.dim..][..self.dim];
                for (number, bytes) in row.iter_mut().zip(numbers) {
                    *number = f32::from_le_bytes(*bytes);
                }
                found[*place] = true;
            }
        }
        Ok(())
    }
}
