//! What a table takes on each level, before anything is loaded.
//!
//! Only the sizes of its files are known, so this is what the table takes as it was trained: keys
//! that updates add come on top, up to a level's overflow margin.

use serde::Serialize;

use super::placement::{Place, PlaceBudgets, PlacedTable, place};
use super::start_error::StartError;
use super::table_plan::{TableName, TablePlan};
use super::table_start::{cache_config, rows_at_start};
use crate::config::{
    LevelFill, PersistentConfig, PersistentKind, Placement, PsConfig, RedisLevelConfig,
};
use crate::ram::RamStoreConfig;
use crate::redis::redis_row_bytes;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableSize {
    /// Its name in databases.
    pub tag: String,
    /// What models call it.
    pub names: Vec<TableName>,
    pub rows: u64,
    pub dim: usize,
    /// Of all rows, without keys.
    pub row_bytes: u64,
    /// Where `placement = "auto"` puts it.
    pub place: Option<Place>,
    /// One for each device.
    pub caches: Vec<CacheBytes>,
    pub ram: Option<LevelBytes>,
    pub redis: Option<LevelBytes>,
    pub persistent: Option<LevelBytes>,
}

/// Of a hot cache, with its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheBytes {
    /// As the configuration counts them.
    pub device: u32,
    /// It has room for.
    pub rows: u64,
    pub device_bytes: u64,
    /// Of host memory that the device reads.
    pub host_bytes: u64,
}

/// Of a level, with its keys and its index; estimates that are rather too high.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LevelBytes {
    pub rows_at_start: u64,
    pub bytes_at_start: u64,
    /// When it has as many of the table's rows as it has room for.
    pub rows_most: u64,
    pub bytes_most: u64,
}

/// Of a persistent store beside each key and row: numbers of its writes, filters and indices.
/// Measured with 128 MiB of rows of 4, 16 and 64 numbers: 6 to 15 bytes in RocksDB, 5 to 12 in an
/// embedded store.
const DISK_ROW_BYTES: u64 = 16;
/// An embedded store makes its log as large at once; measured.
const EMBEDDED_LOG_BYTES: u64 = 64 << 20;

impl TableSize {
    /// Of all tables, in their order. Budgets are for `placement = "auto"`.
    pub fn of_all(
        config: &PsConfig,
        plans: &[TablePlan],
        budgets: PlaceBudgets,
    ) -> Result<Vec<Self>, StartError> {
        let placed = |plan: &TablePlan| PlacedTable {
            bytes: plan.row_bytes(),
            keys: plan.keys_per_sample as u64,
        };
        let places = match config.placement {
            Placement::Configured => vec![None; plans.len()],
            Placement::Auto => {
                let tables: Vec<PlacedTable> = plans.iter().map(placed).collect();
                place(&tables, budgets).into_iter().map(Some).collect()
            }
        };
        plans.iter().zip(places).map(|(plan, place)| Self::of(config, plan, place)).collect()
    }

    fn of(config: &PsConfig, plan: &TablePlan, place: Option<Place>) -> Result<Self, StartError> {
        let is_in_ram = place.is_none_or(|place| place == Place::Ram);
        Ok(TableSize {
            tag: plan.spec.tag.to_string(),
            names: plan.names.clone(),
            rows: plan.rows,
            dim: plan.spec.dim,
            row_bytes: plan.row_bytes(),
            place,
            caches: caches(plan, place)?,
            ram: if is_in_ram { ram(config, plan) } else { None },
            redis: config.redis.as_ref().map(|redis| in_redis(redis, plan)),
            persistent: config.persistent.as_ref().map(|config| on_disk(config, plan)),
        })
    }

    /// Bytes of disk that the persistent level takes beside its tables.
    pub fn log_bytes(config: &PsConfig) -> u64 {
        match config.persistent.as_ref().map(|persistent| persistent.kind) {
            Some(PersistentKind::Embedded) => EMBEDDED_LOG_BYTES,
            Some(PersistentKind::RocksDb) | None => 0,
        }
    }

    /// Bytes of host memory when every level is as full as it gets.
    pub fn host_bytes_most(&self) -> u64 {
        let caches: u64 = self.caches.iter().map(|cache| cache.host_bytes).sum();
        caches + self.ram.map_or(0, |ram| ram.bytes_most)
    }
}

fn caches(plan: &TablePlan, place: Option<Place>) -> Result<Vec<CacheBytes>, StartError> {
    let Some(config) = &plan.cache else { return Ok(Vec::new()) };
    let shape = cache_config(config, plan, place)?.shape;
    let of_device = |device: &u32| CacheBytes {
        device: *device,
        rows: shape.slots() as u64,
        device_bytes: shape.device_bytes() as u64,
        host_bytes: shape.host_row_bytes() as u64,
    };
    Ok(plan.devices.iter().map(of_device).collect())
}

fn ram(config: &PsConfig, plan: &TablePlan) -> Option<LevelBytes> {
    let level = config.ram.as_ref()?;
    let store = RamStoreConfig {
        dim: plan.spec.dim,
        partitions: level.num_partitions,
        rule: config.partition_rule,
        overflow: level.fill.overflow.clone(),
        expected_rows: rows_at_start(&level.fill, level.num_partitions, plan.rows),
    };
    Some(level_bytes(&level.fill, level.num_partitions, plan.rows, |rows| store.bytes_most(rows)))
}

fn in_redis(level: &RedisLevelConfig, plan: &TablePlan) -> LevelBytes {
    let row = redis_row_bytes(&plan.spec, &level.fill.overflow);
    let bytes = |rows: u64| rows.saturating_mul(row);
    level_bytes(&level.fill, level.num_partitions, plan.rows, bytes)
}

/// What it has at the start, and at most.
fn level_bytes(
    fill: &LevelFill,
    partitions: u32,
    rows: u64,
    bytes: impl Fn(u64) -> u64,
) -> LevelBytes {
    let capacity = fill.overflow.margin.saturating_mul(u64::from(partitions));
    let rows_most = rows.min(capacity);
    let rows_at_start = match fill.initialize_after_startup {
        true => rows_at_start(fill, partitions, rows),
        false => 0,
    };
    let (bytes_at_start, bytes_most) = (bytes(rows_at_start), bytes(rows_most));
    LevelBytes { rows_at_start, bytes_at_start, rows_most, bytes_most }
}

/// All rows, unless the database was filled elsewhere.
fn on_disk(config: &PersistentConfig, plan: &TablePlan) -> LevelBytes {
    let record_bytes = (plan.spec.key_kind.bytes() + plan.spec.row_bytes()) as u64;
    let bytes = |rows: u64| rows.saturating_mul(record_bytes + DISK_ROW_BYTES);
    let rows_at_start = if config.initialize_after_startup { plan.rows } else { 0 };
    let (bytes_at_start, bytes_most) = (bytes(rows_at_start), bytes(plan.rows));
    LevelBytes { rows_at_start, bytes_at_start, rows_most: plan.rows, bytes_most }
}

#[cfg(test)]
mod tests;
