//! From a configuration to a server: what is done in which order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terrace_device::Device;

use super::cache_refresh::{CacheRefresh, RefreshPlan};
use super::dense_versions::DenseVersions;
use super::feed_upkeep::FeedUpkeep;
use super::parameter_server::{ParameterServer, first_gpu};
use super::placement::{Place, PlaceBudgets, PlacedTable, place};
use super::redis_upkeep::{RedisKept, RedisUpkeep};
use super::start_error::StartError;
use super::table_plan::{OpenFolder, TableFiles, TablePlan, names_in_order};
use super::table_start::{StartProgress, StartedTable, TableStart, rows_at_start};
use super::update_feeds::{FedTable, UpdateFeeds};
use crate::config::{Placement, PsConfig};
use crate::levels::ReadThreads;
use crate::lookup::{FillThreads, LookupPool, ServedTable};
use crate::persistent::open_persistent;
use crate::redis::RedisDatabase;
use crate::row_database::RowDatabase;
use crate::table_record::TableRecord;

pub struct StartOptions<'a> {
    /// By the numbers that the configuration gives them; one CPU stands for all.
    pub devices: Vec<Device>,
    /// In the names of Kafka's groups.
    pub host_name: String,
    /// Where RocksDB is looked for first.
    pub library_folders: Vec<PathBuf>,
    /// The longest that a look-up waits for Redis, and for the persistent level.
    pub redis_time: Duration,
    pub read_time: Duration,
    /// Threads that bring missing rows into hot caches, and as many that read the persistent level.
    pub threads: usize,
    /// What `placement = "auto"` may take.
    pub budgets: PlaceBudgets,
    pub open: &'a OpenFolder<'a>,
    /// Called with the tag of a table.
    pub progress: &'a mut dyn FnMut(&str, StartProgress),
    /// Called with what the user should know.
    pub say: &'a mut dyn FnMut(String),
}

impl ParameterServer {
    /// Loads and fills everything. Redis and Kafka need not answer.
    pub fn start(config: &PsConfig, options: StartOptions<'_>) -> Result<Self, StartError> {
        ServerStart { config, options }.run()
    }
}

struct ServerStart<'c, 'o> {
    config: &'c PsConfig,
    options: StartOptions<'o>,
}

/// Of one look-up on a GPU whose rows go to host memory.
const POOLED_KEYS: usize = 64 << 10;

/// A table while the server starts.
struct Starting {
    plan: TablePlan,
    files: Option<Arc<TableFiles>>,
    started: StartedTable,
    record: Option<TableRecord>,
}

impl ServerStart<'_, '_> {
    fn run(mut self) -> Result<ParameterServer, StartError> {
        let database = self.open_database()?;
        let fills = Arc::new(FillThreads::start(self.options.threads)?);
        let tables = self.start_tables(database.as_ref(), &fills)?;
        let fed: Vec<Arc<FedTable>> = tables.iter().map(|table| Arc::new(table.fed())).collect();
        let redis = RedisUpkeep::new(self.in_redis(&tables, &fed));
        redis.fill_first();
        self.warm_up(&tables);
        let models = self.config.models.iter().map(|model| model.name.as_str());
        let dense = Arc::new(DenseVersions::new(models));
        let keeps_rows = self.config.persistent.as_ref().is_some_and(|it| !it.read_only);
        let feeds = self.config.update_source.as_ref().map(|kafka| {
            UpdateFeeds::start(kafka, &self.options.host_name, &fed, &dense, keeps_rows)
        });
        let feeds = feeds.transpose()?.map(Arc::new);
        let refresh = tables.iter().filter_map(Starting::refresh_plan).collect();
        let refresh = Arc::new(CacheRefresh::start(refresh)?);
        let served: Vec<_> = tables.iter().map(|it| Arc::clone(&it.started.table)).collect();
        let mut upkeep = Vec::new();
        if let Some(feeds) = &feeds {
            let unreplayed = tables.iter().filter(|table| keeps_rows && table.is_unreplayed());
            let watch = FeedUpkeep {
                feeds: Arc::clone(feeds),
                refresh: Arc::clone(&refresh),
                tables: served.clone(),
                database,
                unreplayed: unreplayed.map(|it| it.plan.spec.tag.to_string()).collect(),
            };
            upkeep.push(watch.start()?);
        }
        if self.config.redis.is_some() {
            upkeep.push(redis.start(feeds.clone(), &refresh)?);
        }
        let lookups = self.lookup_pools(&served)?;
        let topics = fed.iter().map(|fed| fed.topics.clone()).collect();
        let versions = tables.iter().map(Starting::version).collect();
        let names = tables.into_iter().enumerate();
        let names = names.flat_map(|(at, it)| it.plan.names.into_iter().map(move |it| (it, at)));
        let names = names.collect();
        let models = self.config.models.iter().map(names_in_order).collect();
        let tables = served;
        Ok(ParameterServer {
            upkeep,
            tables,
            names,
            models,
            feeds,
            refresh,
            dense,
            topics,
            versions,
            lookups,
            fills,
        })
    }

    fn open_database(&mut self) -> Result<Option<Arc<dyn RowDatabase>>, StartError> {
        let Some(config) = &self.config.persistent else { return Ok(None) };
        let (database, warning) = open_persistent(config, &self.options.library_folders)?;
        warning.into_iter().for_each(&mut *self.options.say);
        Ok(Some(database))
    }

    fn start_tables(
        &mut self,
        database: Option<&Arc<dyn RowDatabase>>,
        fills: &Arc<FillThreads>,
    ) -> Result<Vec<Starting>, StartError> {
        let known = database.map(|database| &**database);
        let (plans, warnings) = TablePlan::of_all(self.config, known, self.options.open)?;
        warnings.into_iter().for_each(&mut *self.options.say);
        let places = self.places(&plans)?;
        let (config, options) = (self.config, &mut self.options);
        let redis = config
            .redis
            .as_ref()
            .map(|redis| RedisDatabase::connect(redis, config.partition_rule, options.redis_time));
        let redis = redis.transpose()?;
        let mut start = TableStart {
            config,
            devices: &options.devices,
            database,
            redis: redis.as_ref(),
            fills,
            reads: &Arc::new(ReadThreads::start(options.threads)?),
            read_time: options.read_time,
            progress: options.progress,
        };
        let start_table = |(mut plan, place): (TablePlan, Option<Place>)| {
            let started = start.start(&plan, place)?;
            let record = known.map(|database| database.record(plan.spec.tag.as_str()));
            let record = record.transpose()?.flatten();
            let files = plan.files.take().map(Arc::new);
            Ok(Starting { plan, files, started, record })
        };
        plans.into_iter().zip(places).map(start_table).collect()
    }

    /// What `placement = "auto"` chooses, and says.
    fn places(&mut self, plans: &[TablePlan]) -> Result<Vec<Option<Place>>, StartError> {
        if self.config.placement == Placement::Configured {
            return Ok(vec![None; plans.len()]);
        }
        let placed = |plan: &TablePlan| PlacedTable {
            bytes: plan.row_bytes(),
            keys: plan.keys_per_sample as u64,
        };
        let tables: Vec<PlacedTable> = plans.iter().map(placed).collect();
        let budgets = self.options.budgets;
        let places = place(&tables, budgets);
        for (plan, place) in plans.iter().zip(&places) {
            let (table, bytes) = (plan.spec.tag.to_string(), plan.row_bytes());
            let place = match place {
                Place::Disk if self.config.persistent.is_none() => {
                    let ram_bytes = budgets.ram;
                    return Err(StartError::NoRoom { table, bytes, ram_bytes });
                }
                Place::Device => "the device",
                Place::Ram => "memory",
                Place::Disk => "disk",
            };
            (self.options.say)(format!("placement of {table}: all {bytes} bytes in {place}"));
        }
        Ok(places.into_iter().map(Some).collect())
    }

    fn in_redis(&self, tables: &[Starting], fed: &[Arc<FedTable>]) -> Vec<RedisKept> {
        let Some(config) = &self.config.redis else { return Vec::new() };
        let kept = |(table, fed): (&Starting, &Arc<FedTable>)| {
            let rows = rows_at_start(&config.fill, config.num_partitions, table.plan.rows);
            Some(RedisKept {
                fed: Arc::clone(fed),
                store: Arc::clone(table.started.redis.as_ref()?),
                version: table.version(),
                files: table.files.clone(),
                rows: if config.fill.initialize_after_startup { rows } else { 0 },
                filled: Mutex::default(),
                owner: Mutex::default(),
            })
        };
        tables.iter().zip(fed).filter_map(kept).collect()
    }

    /// A cache that stays cold fills as rows are asked for.
    fn warm_up(&mut self, tables: &[Starting]) {
        for table in tables {
            let warmed = table.started.warm_up(&table.plan, self.options.progress);
            if let Err(error) = warmed {
                (self.options.say)(format!("a hot cache is not warm: {error}"));
            }
        }
    }

    /// One for each GPU that is the first of a table.
    fn lookup_pools(
        &self,
        tables: &[Arc<ServedTable>],
    ) -> Result<BTreeMap<usize, LookupPool>, StartError> {
        let dim = tables.iter().map(|table| table.spec().dim).max().unwrap_or(1);
        let workspaces = self.config.models.iter().map(|model| model.worker_buffers).max();
        let mut pools = BTreeMap::new();
        for device in &self.options.devices {
            let Device::Cuda(device) = device else { continue };
            let ordinal = device.info().ordinal;
            if !tables.iter().any(|table| first_gpu(table) == Some(ordinal)) {
                continue;
            }
            let pool = LookupPool::new(device, workspaces.unwrap_or(1), POOLED_KEYS, dim);
            let all = || "all tables".to_owned();
            let pool = pool.map_err(|error| StartError::Cache { table: all(), error })?;
            pools.insert(ordinal, pool);
        }
        Ok(pools)
    }
}

impl Starting {
    fn fed(&self) -> FedTable {
        let of_files = self.files.as_ref().map(|files| files.stamp.time_ms);
        let of_record = self.record.as_ref().filter(|record| record.is_loaded);
        FedTable {
            table: Arc::clone(&self.started.table),
            topics: self.plan.topics.iter().map(|tag| tag.kafka_topic().to_owned()).collect(),
            version_ms: of_record.map(|it| it.version_time_ms).or(of_files).unwrap_or(0),
            is_replayed: !self.is_unreplayed(),
        }
    }

    /// Whether it was loaded, and updates since then have not all come.
    fn is_unreplayed(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.is_loaded && !record.is_replayed)
    }

    /// Of the rows that it began with; in one word.
    fn version(&self) -> String {
        let of_record = self.record.as_ref().and_then(|record| record.version.clone());
        let of_files = || self.files.as_ref().map(|files| files.stamp.text.clone());
        of_record.or_else(of_files).unwrap_or_else(|| "updates".to_owned())
    }

    fn refresh_plan(&self) -> Option<RefreshPlan> {
        let cache = self.plan.cache.as_ref()?;
        // Without a share there is no refresh but on request.
        let (delay, interval, share) = match cache.refresh_share > 0.0 {
            true => (cache.refresh_delay, cache.refresh_interval, cache.refresh_share),
            false => (None, None, REQUESTED_SHARE),
        };
        Some(RefreshPlan { table: Arc::clone(&self.started.table), delay, interval, share })
    }
}

/// Of a cache's sets in one step of a walk that nobody configured.
const REQUESTED_SHARE: f64 = 0.01;
