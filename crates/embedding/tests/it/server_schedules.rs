//! Random schedules of everything that can happen to a server: updates that come late and again,
//! levels that fail, lose rows or go back to old ones, restarts, evictions.
//!
//! Most are simulated: stores in memory, no thread and no socket, the same every time. Some are run
//! with real servers around. `TERRACE_SEED` repeats them, `TERRACE_SCHEDULES` says how many of the
//! real ones there are.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_device::Device;
use terrace_embedding::{
    CacheHolds, FillThreads, KeyKind, Level, LevelConfig, LevelKind, MissingRows, RowStore,
    ServedTable, ServedTableConfig, TableCacheConfig, TableLevels, TableSpec, TagStyle,
    UpdateScope,
};
use terrace_kernels::HotCacheShape;
use terrace_testkit::Rng;
use terrace_tiers::BreakerConfig;

use crate::lookups::{DIM, MoodyStore, row, rows};
use crate::persistent_killed::number;
use crate::served_world::World;

const SIMULATED: u64 = 100;
const STEPS: usize = 150;
const KEYS: i64 = 150;
const DEFAULT: f32 = -0.5;
/// Rows that memory and Redis have room for.
const RAM_ROWS: u64 = 40;
const REDIS_ROWS: u64 = 90;
/// Fewer than that make no hot cache.
const CACHED_ROWS: usize = 64;

type Update = (Vec<i64>, i64);

struct Simulation {
    rng: Rng,
    redis: Arc<MoodyStore>,
    persistent: Arc<MoodyStore>,
    table: Arc<ServedTable>,
    /// Published and not applied, for this server and for Redis.
    own: VecDeque<Update>,
    shared: VecDeque<Update>,
    /// Applied and not committed: they come again after a restart.
    uncommitted: Vec<Update>,
    newest: BTreeMap<i64, i64>,
    /// What every level has had since all had it.
    settled: BTreeMap<i64, i64>,
    snapshot: Vec<(i64, Vec<f32>)>,
    version: i64,
}

fn level(kind: LevelKind, store: &Arc<MoodyStore>) -> Level {
    let config = LevelConfig {
        kind,
        promotes: kind != LevelKind::Persistent,
        takes_updates: true,
        suspends_itself: kind == LevelKind::Redis,
        timed_reads: None,
        breaker: BreakerConfig { failures: u32::MAX, ..BreakerConfig::default() },
    };
    Level::new(Arc::clone(store) as Arc<dyn RowStore>, "test", config)
}

/// With empty memory and an empty hot cache.
fn table(redis: &Arc<MoodyStore>, persistent: &Arc<MoodyStore>) -> Arc<ServedTable> {
    let tag = TagStyle::Hps.table_tag("m", "t");
    let spec = TableSpec { tag, key_kind: KeyKind::I64, dim: DIM, default_value: DEFAULT };
    let levels = vec![
        level(LevelKind::Ram, &MoodyStore::new(RAM_ROWS)),
        level(LevelKind::Redis, redis),
        level(LevelKind::Persistent, persistent),
    ];
    let cache = TableCacheConfig {
        shape: HotCacheShape::evicting(CACHED_ROWS, DIM).expect("a small cache"),
        holds: CacheHolds::Recent,
        hit_rate_threshold: 1.1,
    };
    let table = ServedTable::new(ServedTableConfig {
        levels: TableLevels::new(spec, levels),
        caches: vec![(Device::Cpu, cache)],
        fills: Arc::new(FillThreads::start(1).expect("a thread")),
    });
    Arc::new(table.expect("memory"))
}

fn scanned(store: &MoodyStore) -> Vec<(i64, Vec<f32>)> {
    let mut all = Vec::new();
    let mut each = |keys: &[i64], rows: &[f32]| {
        all.extend(keys.iter().copied().zip(rows.chunks(DIM).map(<[f32]>::to_vec)));
        Ok(())
    };
    store.scan(50, &mut each).expect("memory");
    all
}

fn clear(store: &MoodyStore) {
    let keys: Vec<i64> = scanned(store).into_iter().map(|(key, _)| key).collect();
    store.remove_many(&keys).expect("memory");
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let (redis, persistent) = (MoodyStore::new(REDIS_ROWS), MoodyStore::new(u64::MAX));
        let keys: Vec<i64> = (0..KEYS).collect();
        persistent.put_many(&keys, &rows(&keys, 1)).expect("memory");
        let newest: BTreeMap<i64, i64> = keys.into_iter().map(|key| (key, 1)).collect();
        Simulation {
            rng: Rng::new(seed),
            table: table(&redis, &persistent),
            redis,
            persistent,
            own: VecDeque::new(),
            shared: VecDeque::new(),
            uncommitted: Vec::new(),
            settled: newest.clone(),
            newest,
            snapshot: Vec::new(),
            version: 1,
        }
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            match self.rng.below(30) {
                0..5 => self.publish(),
                5..9 => self.deliver(UpdateScope::Own),
                9..13 => self.deliver(UpdateScope::Shared),
                13..21 => self.look_up(),
                21 => self.turn_persistent(),
                22 => self.lose_redis(),
                23 | 24 => self.repair_redis(),
                25 => self.snapshot = scanned(&self.redis),
                26 => self.refresh(),
                27 => self.commit(),
                28 => self.restart(),
                _ => self.settle(),
            }
        }
        self.settle();
    }

    fn keys(&mut self, most: usize) -> Vec<i64> {
        let mut keys: Vec<i64> = (0..KEYS).collect();
        self.rng.shuffle(&mut keys);
        keys.truncate(self.rng.below(most + 1));
        keys
    }

    fn publish(&mut self) {
        self.version += 1;
        let keys = self.keys(30);
        self.newest.extend(keys.iter().map(|key| (*key, self.version)));
        self.own.push_back((keys.clone(), self.version));
        self.shared.push_back((keys, self.version));
        self.table.set_lags(true);
    }

    /// The oldest update that was not applied; one that fails comes again.
    fn deliver(&mut self, scope: UpdateScope) {
        let queue = match scope {
            UpdateScope::Own => &mut self.own,
            UpdateScope::Shared => &mut self.shared,
        };
        let Some((keys, version)) = queue.front() else { return };
        if self.table.update(scope, keys, &rows(keys, *version)).is_ok() {
            let update = queue.pop_front().expect("it was there");
            if scope == UpdateScope::Own {
                self.uncommitted.push(update);
            }
        }
        self.table.set_lags(!self.own.is_empty());
    }

    fn turn_persistent(&self) {
        self.persistent.fails.fetch_xor(true, Ordering::Relaxed);
    }

    fn commit(&mut self) {
        self.uncommitted.clear();
    }

    fn look_up(&mut self) {
        let mut keys = self.keys(60);
        // Some of them twice, and one that is nowhere.
        keys.extend_from_within(..keys.len() / 3);
        keys.push(KEYS + 7);
        let found = self.ask(&keys);
        for (key, version) in keys.iter().zip(found) {
            self.check(*key, version);
        }
    }

    fn check(&self, key: i64, version: Option<i64>) {
        let is_down = self.persistent.fails.load(Ordering::Relaxed);
        match version {
            None => assert!(is_down || key >= KEYS, "key {key} is missing"),
            Some(version) => {
                let known = self.settled[&key]..=self.newest[&key];
                assert!(known.contains(&version), "key {key}: {version}, and not {known:?}");
            }
        }
    }

    fn ask(&self, keys: &[i64]) -> Vec<Option<i64>> {
        let mut rows = vec![f32::NAN; keys.len() * DIM];
        self.table.look_up(keys, MissingRows::AsConfigured, &mut rows).expect("keys of 64 bits");
        let version = |(key, found): (&i64, &[f32])| {
            let version = found[1] as i64;
            let is_default = found == [DEFAULT; DIM];
            assert!(is_default || found == row(*key, version), "key {key}: {found:?}");
            (!is_default).then_some(version)
        };
        keys.iter().zip(rows.chunks(DIM)).map(version).collect()
    }

    /// A node is gone, and comes back with nothing or with what it had long ago.
    fn lose_redis(&mut self) {
        self.redis.fails.store(true, Ordering::Relaxed);
        let redis = self.table.levels().level(LevelKind::Redis).expect("a level");
        let asked = redis.get_many(&[0], &mut [0.0; DIM], &mut [false]);
        assert!(asked.is_err() || redis.is_suspended());
        clear(&self.redis);
        if self.rng.below(2) == 0 {
            self.redis.fails.store(false, Ordering::Relaxed);
            for (key, row) in &self.snapshot {
                self.redis.put_many(&[*key], row).expect("memory");
            }
        }
    }

    /// As a server does it: away with what may be old, then rows of the level below once all of
    /// this server's updates have come.
    fn repair_redis(&self) {
        let redis = self.table.levels().level(LevelKind::Redis).expect("a level");
        if !redis.is_suspended() {
            return;
        }
        self.redis.fails.store(false, Ordering::Relaxed);
        clear(&self.redis);
        redis.set_suspended(false);
        if self.own.is_empty() {
            for (key, row) in scanned(&self.persistent) {
                self.redis.add_many(&[key], &row).expect("memory");
            }
        }
    }

    fn refresh(&mut self) {
        let sets = self.table.caches()[0].cache().sets();
        let start = self.rng.below(sets as usize) as u32;
        self.table.refresh(0, start..sets).expect("memory");
    }

    /// Memory is empty, and what was not committed comes again.
    fn restart(&mut self) {
        let is_suspended =
            self.table.levels().level(LevelKind::Redis).is_some_and(Level::is_suspended);
        self.table = table(&self.redis, &self.persistent);
        self.table.levels().level(LevelKind::Redis).expect("a level").set_suspended(is_suspended);
        for update in std::mem::take(&mut self.uncommitted).into_iter().rev() {
            for key in &update.0 {
                self.settled.insert(*key, 1);
            }
            self.own.push_front(update);
        }
        self.table.set_lags(!self.own.is_empty());
    }

    /// Everything works and everything comes: then all agree.
    fn settle(&mut self) {
        self.persistent.fails.store(false, Ordering::Relaxed);
        while !self.own.is_empty() {
            self.deliver(UpdateScope::Own);
        }
        self.repair_redis();
        self.redis.fails.store(false, Ordering::Relaxed);
        while !self.shared.is_empty() {
            self.deliver(UpdateScope::Shared);
        }
        let sets = self.table.caches()[0].cache().sets();
        self.table.refresh(0, 0..sets).expect("memory");
        let keys: Vec<i64> = (0..KEYS).collect();
        let want: Vec<_> = keys.iter().map(|key| Some(self.newest[key])).collect();
        assert_eq!(self.ask(&keys), want);
        for store in [&self.redis, &self.persistent] {
            for (key, found) in scanned(store) {
                assert_eq!(found, row(key, self.newest[&key]), "{key}");
            }
        }
        self.settled = self.newest.clone();
        self.uncommitted.clear();
    }
}

#[test]
fn simulated_schedules_show_no_wrong_row() {
    let first = number("TERRACE_SEED", 0);
    for seed in first..first + SIMULATED {
        Simulation::new(seed).run();
    }
}

/// Some faults at once, in any order, then everything comes back.
fn run_real(seed: u64) {
    let mut world = World::start(Some("embedded"), seed);
    let (mut is_down, mut is_broker_up) = ([false; 3], true);
    for _ in 0..8 {
        let node = world.rng.below(3);
        match world.rng.below(8) {
            0..3 => world.publish(),
            3 if !is_down[node] => {
                world.kill_redis(node);
                is_down[node] = true;
            }
            4 if !is_down[node] => drop(world.cluster.servers[node].command(&["SAVE"])),
            5 => {
                is_broker_up = !is_broker_up;
                world.may_go_back();
                world.set_broker_up(is_broker_up);
            }
            6 => {
                world.may_go_back();
                world.restart_server();
            }
            _ => {
                if std::mem::take(&mut is_down[node]) {
                    world.start_redis(node);
                }
            }
        }
        world.watch().wait_for_look_ups(10);
    }
    world.set_broker_up(true);
    for node in (0..3).filter(|node| is_down[*node]) {
        world.start_redis(node);
    }
    world.publish();
    world.settle();
    world.stop();
}

#[test]
fn real_schedules_show_no_wrong_row() {
    let first = number("TERRACE_SEED", 1);
    for seed in first..first + number("TERRACE_SCHEDULES", 2) {
        println!("schedule {seed}");
        run_real(seed);
    }
}
