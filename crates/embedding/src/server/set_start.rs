//! From a configuration to tables that are loaded and filled: the first part of a set's start.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::live_table::{LiveTable, TableIdentity};
use super::parameter_server::ParameterServer;
use super::placement::{Place, PlacedTable, place};
use super::redis_kept::RedisKept;
use super::redis_upkeep::RedisUpkeep;
use super::set_serve::PreparedSet;
use super::set_table::SetTable;
use super::shared_databases::SharedDatabases;
use super::start_error::StartError;
use super::start_options::{SetOptions, StartOptions};
use super::starting_table::StartingTable;
use super::storage_choice::StorageChoice;
use super::storage_claims::StorageClaim;
use super::table_plan::TablePlan;
use super::table_start::{TableStart, rows_at_start};
use crate::config::{Placement, PsConfig};
use crate::load::FileVersion;

struct SetStart<'c, 'o> {
    databases: &'c Arc<SharedDatabases>,
    config: &'c PsConfig,
    options: SetOptions<'o>,
}

impl ParameterServer {
    /// Opens databases, loads and fills everything. Redis and Kafka need not answer.
    pub fn start(config: &PsConfig, options: StartOptions<'_>) -> Result<Self, StartError> {
        let (databases, options) = options.split();
        let databases = SharedDatabases::open(config, databases, options.say)?;
        Self::start_beside(&databases, config, options)
    }

    /// Serves the tables of a configuration beside those that other sets of the same databases
    /// have. A table that one of these serves with the same files and settings is shared; of one
    /// that is served with others there are two versions then.
    pub fn start_beside(
        databases: &Arc<SharedDatabases>,
        config: &PsConfig,
        options: SetOptions<'_>,
    ) -> Result<Self, StartError> {
        Self::prepare_beside(databases, config, options)?.serve()
    }

    /// The first part of this, which may take long: loads and fills. The threads that serve are
    /// started by the second.
    pub fn prepare_beside(
        databases: &Arc<SharedDatabases>,
        config: &PsConfig,
        options: SetOptions<'_>,
    ) -> Result<PreparedSet, StartError> {
        SetStart { databases, config, options }.run()
    }
}

impl SetStart<'_, '_> {
    fn run(mut self) -> Result<PreparedSet, StartError> {
        self.databases.check(self.config)?;
        let known = self.databases.persistent().map(|database| &**database);
        let (plans, warnings) = TablePlan::of_all(self.config, known, self.options.open)?;
        warnings.into_iter().for_each(&mut *self.options.say);
        let living: Vec<Option<Arc<LiveTable>>> = plans.iter().map(|it| self.serving(it)).collect();
        let places = self.places(&plans, &living)?;
        let mut tables = Vec::new();
        for ((mut plan, living), place) in plans.into_iter().zip(living).zip(places) {
            let table = match living {
                Some(live) => SetTable::Living(live),
                None => SetTable::Starting(Box::new(self.start_table(&mut plan, place)?)),
            };
            tables.push((plan, table));
        }
        let replaced = self.replace_in_redis(&tables);
        let kept = self.in_redis(&tables);
        let redis =
            RedisUpkeep::new(kept.values().cloned().collect(), self.databases.feed_source());
        redis.fill_first();
        self.warm_up(&tables);
        let (databases, config) = (Arc::clone(self.databases), self.config.clone());
        Ok(PreparedSet { databases, config, tables, kept, redis, replaced })
    }

    fn serving(&self, plan: &TablePlan) -> Option<Arc<LiveTable>> {
        self.databases.serving(&TableIdentity::of(self.config, plan))
    }

    /// What `placement = "auto"` chooses, and says; `None` for tables that are served already.
    fn places(
        &mut self,
        plans: &[TablePlan],
        living: &[Option<Arc<LiveTable>>],
    ) -> Result<Vec<Option<Place>>, StartError> {
        let mut places = vec![None; plans.len()];
        if self.config.placement == Placement::Configured {
            return Ok(places);
        }
        let new: Vec<usize> = (0..plans.len()).filter(|index| living[*index].is_none()).collect();
        let placed = |index: &usize| PlacedTable {
            bytes: plans[*index].row_bytes(),
            keys: plans[*index].keys_per_sample as u64,
        };
        let tables: Vec<PlacedTable> = new.iter().map(placed).collect();
        let budgets = self.databases.budgets();
        for (index, place) in new.into_iter().zip(place(&tables, budgets)) {
            let (table, bytes) = (plans[index].spec.tag.to_string(), plans[index].row_bytes());
            let name = match place {
                Place::Disk if self.config.persistent.is_none() => {
                    let ram_bytes = budgets.ram;
                    return Err(StartError::NoRoom { table, bytes, ram_bytes });
                }
                Place::Device => "the device",
                Place::Ram => "memory",
                Place::Disk => "disk",
            };
            (self.options.say)(format!("placement of {table}: all {bytes} bytes in {name}"));
            places[index] = Some(place);
        }
        Ok(places)
    }

    fn start_table(
        &mut self,
        plan: &mut TablePlan,
        place: Option<Place>,
    ) -> Result<StartingTable, StartError> {
        let version = plan.files.as_ref().map(|files| FileVersion::new(&files.folders));
        let (databases, config) = (self.databases, self.config);
        let choice = StorageChoice { databases, config, progress: self.options.progress };
        let claim = choice.claim(plan, version.as_ref())?;
        let stored = match &claim {
            Some(claim) => claim.spec(&plan.spec),
            None => plan.stored_spec(),
        };
        let started = self.table_start().start(plan, place, &stored, version.as_ref())?;
        let tag = plan.spec.tag.clone();
        let level = StartError::level(tag.as_str());
        claim.iter().try_for_each(StorageClaim::note_served).map_err(&level)?;
        let known = self.databases.persistent();
        let record = known.map(|database| database.record(stored.tag.as_str()));
        let record = record.transpose().map_err(&level)?.flatten();
        let identity = TableIdentity::of(self.config, plan);
        let placed = place.map(|place| (place, plan.row_bytes()));
        Ok(StartingTable::new(started, plan, record.as_ref(), identity, placed, claim))
    }

    fn table_start(&mut self) -> TableStart<'_> {
        let (databases, options) = (self.databases, self.databases.options());
        TableStart {
            config: self.config,
            devices: &options.devices,
            database: databases.persistent(),
            redis: databases.redis(),
            fills: databases.fills(),
            reads: databases.reads(),
            read_time: options.read_time,
            progress: self.options.progress,
        }
    }

    /// Who starts last has its rows in Redis; gives those who leave it to others from now on.
    fn replace_in_redis(&self, tables: &[(TablePlan, SetTable)]) -> Vec<Arc<RedisKept>> {
        let mut replaced = Vec::new();
        for (plan, table) in tables {
            let others = self.databases.others(&plan.spec.tag);
            let own = match table {
                SetTable::Living(live) => live.redis(),
                SetTable::Starting(_) => None,
            };
            let others = others.iter().filter_map(|live| live.redis());
            let others = others.filter(|kept| own.is_none_or(|own| !Arc::ptr_eq(own, kept)));
            let mut given_up: Vec<_> = others.filter(|kept| kept.give_up()).cloned().collect();
            if let Some(own) = own
                && own.is_out()
            {
                own.take_over();
            }
            replaced.append(&mut given_up);
        }
        replaced
    }

    /// Tables that start, by their place in the set.
    fn in_redis(&self, tables: &[(TablePlan, SetTable)]) -> BTreeMap<usize, Arc<RedisKept>> {
        let Some(config) = &self.config.redis else { return BTreeMap::new() };
        let kept = |(index, (plan, table)): (usize, &(TablePlan, SetTable))| {
            let SetTable::Starting(table) = table else { return None };
            let rows = rows_at_start(&config.fill, config.num_partitions, plan.rows);
            let rows = if config.fill.initialize_after_startup { rows } else { 0 };
            Some((index, Arc::new(table.in_redis(rows)?)))
        };
        tables.iter().enumerate().filter_map(kept).collect()
    }

    /// A cache that stays cold fills as rows are asked for.
    fn warm_up(&mut self, tables: &[(TablePlan, SetTable)]) {
        for (plan, table) in tables {
            let SetTable::Starting(table) = table else { continue };
            if let Err(error) = table.started().warm_up(plan, self.options.progress) {
                (self.options.say)(format!("a hot cache is not warm: {error}"));
            }
        }
    }
}
