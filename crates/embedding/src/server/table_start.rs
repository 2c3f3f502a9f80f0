//! From a plan to a table that is served: loaded, its levels filled, its hot caches made.

use std::sync::Arc;
use std::time::Duration;

use terrace_device::Device;
use terrace_kernels::HotCacheShape;
use terrace_tiers::{BreakerConfig, TierError};

use super::placement::Place;
use super::start_error::StartError;
use super::table_plan::{TableFiles, TablePlan};
use crate::config::{GpuCacheConfig, GpuCacheKind, LevelFill, PsConfig, UpdateFilters};
use crate::levels::{Level, LevelConfig, LevelKind, ReadThreads, TableLevels};
use crate::load::{FileVersion, LoadError, LoadProgress, load_version};
use crate::lookup::{CacheHolds, FillThreads, ServedTable, ServedTableConfig, TableCacheConfig};
use crate::ram::{RamStore, RamStoreConfig};
use crate::redis::{RedisDatabase, RedisStore};
use crate::row_database::RowDatabase;
use crate::row_store::{RowStore, ScannedRows};
use crate::table_spec::TableSpec;

/// What all tables of a server have in common.
pub struct TableStart<'a> {
    pub config: &'a PsConfig,
    pub devices: &'a [Device],
    pub database: Option<&'a Arc<dyn RowDatabase>>,
    pub redis: Option<&'a RedisDatabase>,
    pub fills: &'a Arc<FillThreads>,
    pub reads: &'a Arc<ReadThreads>,
    /// The longest that a look-up waits for the persistent level.
    pub read_time: Duration,
    /// Called with the table's tag.
    pub progress: &'a mut dyn FnMut(&str, StartProgress),
}

/// How far the start of a table has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartProgress {
    /// Into the persistent level.
    Load(LoadProgress),
    /// Rows that are in memory, of all that will be.
    Ram { rows: u64, of: u64 },
    /// Rows that came into a hot cache.
    Warmed { rows: u64 },
}

pub struct StartedTable {
    pub table: Arc<ServedTable>,
    pub redis: Option<Arc<RedisStore>>,
}

/// A hot cache has room for as many rows at least.
const CACHE_ROWS_LEAST: u64 = 64;
const FILL_ROWS: usize = 16 << 10;
/// A level that fails is asked again soon: rows are missing meanwhile.
const BREAKER: BreakerConfig =
    BreakerConfig { failures: 3, first_wait_ms: 200, longest_wait_ms: 2_000, seed: 0 };

impl TableStart<'_> {
    /// `stored` is the table as the database knows it, `version` that of the files.
    pub fn start(
        &mut self,
        plan: &TablePlan,
        place: Option<Place>,
        stored: &TableSpec,
        version: Option<&FileVersion<'_>>,
    ) -> Result<StartedTable, StartError> {
        let persistent = self.persistent(stored, version)?;
        let ram = self.ram(plan, place, persistent.as_ref())?;
        let redis = self.redis.map(|redis| Arc::new(redis.table(&plan.spec)));
        let levels = self.levels(plan, ram, redis.clone(), persistent);
        let caches = self.caches(plan, place)?;
        let cached = ServedTableConfig { levels, caches, fills: Arc::clone(self.fills) };
        let tag = plan.spec.tag.as_str();
        let table = ServedTable::new(cached)
            .map_err(|error| StartError::Cache { table: tag.to_owned(), error })?;
        Ok(StartedTable { table: Arc::new(table), redis })
    }

    /// The table in the database, loaded.
    fn persistent(
        &mut self,
        stored: &TableSpec,
        version: Option<&FileVersion<'_>>,
    ) -> Result<Option<Arc<dyn RowStore>>, StartError> {
        let (Some(database), Some(config)) = (self.database, &self.config.persistent) else {
            return Ok(None);
        };
        let tag = stored.tag.as_str();
        if let Some(version) = version
            && config.initialize_after_startup
            && !config.read_only
        {
            let mut progress = |at| (self.progress)(tag, StartProgress::Load(at));
            load_version(stored, version, &**database, &mut progress)
                .map_err(|error| StartError::Load { table: tag.to_owned(), error })?;
        }
        database.table(stored).map(Some).map_err(StartError::level(tag))
    }

    fn ram(
        &mut self,
        plan: &TablePlan,
        place: Option<Place>,
        persistent: Option<&Arc<dyn RowStore>>,
    ) -> Result<Option<Arc<RamStore>>, StartError> {
        let Some(config) = &self.config.ram else { return Ok(None) };
        if place.is_some_and(|place| place != Place::Ram) {
            return Ok(None);
        }
        let rows = rows_at_start(&config.fill, config.num_partitions, plan.rows);
        let store = Arc::new(RamStore::new(RamStoreConfig {
            dim: plan.spec.dim,
            partitions: config.num_partitions,
            rule: self.config.partition_rule,
            overflow: config.fill.overflow.clone(),
            expected_rows: rows,
        }));
        if config.fill.initialize_after_startup && rows > 0 {
            let tag = plan.spec.tag.as_str();
            let source = RowSource { spec: &plan.spec, files: plan.files.as_ref(), persistent };
            let mut filled = 0;
            source
                .copy(rows, &mut |keys, numbers| {
                    store.add_many(keys, numbers)?;
                    filled += keys.len() as u64;
                    (self.progress)(tag, StartProgress::Ram { rows: filled, of: rows });
                    Ok(())
                })
                .map_err(|error| StartError::Load { table: tag.to_owned(), error })?;
        }
        Ok(Some(store))
    }

    fn levels(
        &self,
        plan: &TablePlan,
        ram: Option<Arc<RamStore>>,
        redis: Option<Arc<RedisStore>>,
        persistent: Option<Arc<dyn RowStore>>,
    ) -> TableLevels {
        let tag = plan.spec.tag.as_str();
        let is_for = |models: &UpdateFilters| plan.is_for(models);
        let level = |kind, fill: &LevelFill| LevelConfig {
            kind,
            promotes: fill.cache_missed_embeddings && persistent.is_some(),
            takes_updates: is_for(&fill.update_filters),
            // Without a level below it, old rows are better than none.
            suspends_itself: kind == LevelKind::Redis && persistent.is_some(),
            timed_reads: None,
            breaker: BREAKER,
        };
        let mut levels = Vec::new();
        if let (Some(store), Some(config)) = (ram, &self.config.ram) {
            levels.push(Level::new(store, tag, level(LevelKind::Ram, &config.fill)));
        }
        if let (Some(store), Some(config)) = (redis, &self.config.redis) {
            levels.push(Level::new(store, tag, level(LevelKind::Redis, &config.fill)));
        }
        if let (Some(store), Some(config)) = (&persistent, &self.config.persistent) {
            let level = LevelConfig {
                kind: LevelKind::Persistent,
                promotes: false,
                takes_updates: is_for(&config.update_filters) && !config.read_only,
                suspends_itself: false,
                timed_reads: Some((Arc::clone(self.reads), self.read_time)),
                breaker: BREAKER,
            };
            levels.push(Level::new(Arc::clone(store), tag, level));
        }
        TableLevels::new(plan.spec.clone(), levels)
    }

    fn caches(
        &self,
        plan: &TablePlan,
        place: Option<Place>,
    ) -> Result<Vec<(Device, TableCacheConfig)>, StartError> {
        let Some(config) = &plan.cache else { return Ok(Vec::new()) };
        let cache = cache_config(config, plan, place)?;
        if let [Device::Cpu] = self.devices {
            return Ok(vec![(Device::Cpu, cache)]);
        }
        let device = |number: &u32| match self.devices.get(*number as usize) {
            Some(device) => Ok((device.clone(), cache.clone())),
            None => Err(StartError::NoDevice {
                table: plan.spec.tag.to_string(),
                device: *number,
                have: self.devices.len(),
            }),
        };
        plan.devices.iter().map(device).collect()
    }
}

impl StartedTable {
    /// Fills the hot caches, where the configuration says so.
    pub fn warm_up(
        &self,
        plan: &TablePlan,
        progress: &mut dyn FnMut(&str, StartProgress),
    ) -> Result<(), StartError> {
        let tag = plan.spec.tag.as_str();
        let fills = plan.cache.as_ref().is_some_and(|cache| cache.is_filled_at_start);
        for (number, cache) in self.table.caches().iter().enumerate() {
            if fills || cache.holds() == CacheHolds::All {
                let rows = self.table.warm_up(number).map_err(StartError::of_update(tag))?;
                progress(tag, StartProgress::Warmed { rows });
            }
        }
        Ok(())
    }
}

/// Rows that a level is filled with: all, or a share of what it has room for.
pub fn rows_at_start(fill: &LevelFill, partitions: u32, rows: u64) -> u64 {
    let capacity = fill.overflow.margin.saturating_mul(u64::from(partitions));
    match rows <= capacity {
        true => rows,
        false => (capacity as f64 * fill.initial_cache_rate) as u64,
    }
}

pub fn cache_config(
    config: &GpuCacheConfig,
    plan: &TablePlan,
    place: Option<Place>,
) -> Result<TableCacheConfig, StartError> {
    let (dim, all) = (plan.spec.dim, plan.rows.max(CACHE_ROWS_LEAST));
    let kind = match place {
        Some(Place::Device) => GpuCacheKind::Static,
        Some(Place::Ram | Place::Disk) => GpuCacheKind::Dynamic,
        None => config.kind,
    };
    let is_whole = config.share >= 1.0 || kind != GpuCacheKind::Dynamic;
    let recent = ((all as f64 * config.share) as u64).max(CACHE_ROWS_LEAST);
    let (rows, holds) = match is_whole {
        true => (all, CacheHolds::All),
        false => (recent, CacheHolds::Recent),
    };
    let device_bytes = match kind {
        GpuCacheKind::Uvm => (plan.row_bytes() as f64 * config.share) as usize,
        GpuCacheKind::Static | GpuCacheKind::Dynamic => usize::MAX,
    };
    let shape = match (usize::try_from(rows), holds) {
        (Ok(rows), CacheHolds::All) => HotCacheShape::resident(rows, dim, device_bytes),
        (Ok(rows), CacheHolds::Recent) => HotCacheShape::evicting(rows, dim),
        (Err(_), _) => None,
    };
    let shape = shape.ok_or(StartError::CacheTooLarge { rows, dim })?;
    Ok(TableCacheConfig { shape, holds, hit_rate_threshold: config.hit_rate_threshold })
}

/// Where the rows of a table come from that levels above are filled with.
pub struct RowSource<'a> {
    pub spec: &'a TableSpec,
    pub files: Option<&'a TableFiles>,
    pub persistent: Option<&'a Arc<dyn RowStore>>,
}

impl RowSource<'_> {
    /// Gives the first so many rows: those of the persistent level, else those of the files.
    pub fn copy(&self, most: u64, each: &mut ScannedRows<'_>) -> Result<(), LoadError> {
        let dim = self.spec.dim;
        let mut left = most;
        let full = TierError::Full("the level is full".to_owned());
        let mut taken = |keys: &[i64], rows: &[f32]| {
            let count = keys.len().min(left.try_into().unwrap_or(usize::MAX));
            left -= count as u64;
            each(&keys[..count], &rows[..count * dim])?;
            if left == 0 { Err(full.clone()) } else { Ok(()) }
        };
        let copied = match (self.persistent, self.files) {
            (Some(persistent), _) => {
                persistent.scan(FILL_ROWS, &mut taken).map_err(LoadError::from)
            }
            (None, Some(files)) => read_files(self.spec, files, &mut taken),
            (None, None) => Ok(()),
        };
        match copied {
            Err(LoadError::Level(error)) if error == full => Ok(()),
            other => other,
        }
    }
}

fn read_files(
    spec: &TableSpec,
    files: &TableFiles,
    each: &mut ScannedRows<'_>,
) -> Result<(), LoadError> {
    files.folders.iter().try_for_each(|folder| folder.scan(FILL_ROWS, spec.key_kind, each))
}
