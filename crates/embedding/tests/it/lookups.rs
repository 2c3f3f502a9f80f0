//! Look-ups through hot caches and levels, with stores that fail on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use terrace_device::Device;
use terrace_embedding::{
    CacheHolds, CacheRefresh, FillThreads, KeyKind, Level, LevelConfig, LevelKind, LookupStats,
    MissingRows, OverflowConfig, OverflowPolicy, PartitionRule, Prefetched, RamStore,
    RamStoreConfig, ReadThreads, RefreshPlan, RowStore, ScannedRows, ServedTable,
    ServedTableConfig, TableCacheConfig, TableLevels, TableSpec, TagStyle, UpdateScope,
};
use terrace_kernels::HotCacheShape;
use terrace_tiers::{BreakerConfig, TierError};

pub const DIM: usize = 2;
const DEFAULT: f32 = -0.5;

/// A store in memory that counts, and fails or hangs on request.
pub struct MoodyStore {
    rows: RamStore,
    pub fails: AtomicBool,
    pub hangs: AtomicBool,
    pub asked: AtomicUsize,
}

impl MoodyStore {
    pub fn new(margin: u64) -> Arc<Self> {
        let overflow = OverflowConfig { margin, policy: OverflowPolicy::EvictOldest, target: 0.5 };
        let (rule, expected_rows) = (PartitionRule::Mix, 0);
        let config = RamStoreConfig { dim: DIM, partitions: 1, rule, overflow, expected_rows };
        Arc::new(MoodyStore {
            rows: RamStore::new(config),
            fails: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
        })
    }

    fn mood(&self) -> Result<(), TierError> {
        while self.hangs.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        match self.fails.load(Ordering::Relaxed) {
            true => Err(TierError::Unavailable("moody: failed on request".into())),
            false => Ok(()),
        }
    }
}

impl RowStore for MoodyStore {
    fn name(&self) -> &str {
        "moody"
    }

    fn get_many(
        &self,
        keys: &[i64],
        rows: &mut [f32],
        found: &mut [bool],
    ) -> Result<(), TierError> {
        self.asked.fetch_add(found.iter().filter(|found| !**found).count(), Ordering::Relaxed);
        self.mood()?;
        self.rows.get_many(keys, rows, found)
    }

    fn put_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.mood()?;
        self.rows.put_many(keys, rows)
    }

    fn add_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.mood()?;
        self.rows.add_many(keys, rows)
    }

    fn remove_many(&self, keys: &[i64]) -> Result<(), TierError> {
        self.rows.remove_many(keys)
    }

    fn count(&self) -> Result<u64, TierError> {
        self.rows.count()
    }

    fn scan(&self, batch_rows: usize, each: &mut ScannedRows<'_>) -> Result<(), TierError> {
        self.rows.scan(batch_rows, each)
    }
}

pub fn row(key: i64, version: i64) -> [f32; DIM] {
    [key as f32, version as f32]
}

pub fn rows(keys: &[i64], version: i64) -> Vec<f32> {
    keys.iter().flat_map(|key| row(*key, version)).collect()
}

fn level(kind: LevelKind, store: &Arc<MoodyStore>, promotes: bool) -> Level {
    let store: Arc<dyn RowStore> = Arc::clone(store) as _;
    let timed_reads = (kind == LevelKind::Persistent)
        .then(|| (Arc::new(ReadThreads::start(2).expect("threads")), Duration::from_millis(200)));
    let breaker = BreakerConfig { failures: 3, first_wait_ms: 50, ..BreakerConfig::default() };
    Level::new(
        store,
        "test",
        LevelConfig {
            kind,
            promotes,
            takes_updates: true,
            suspends_itself: false,
            timed_reads,
            breaker,
        },
    )
}

struct Setup {
    ram: Arc<MoodyStore>,
    redis: Arc<MoodyStore>,
    persistent: Arc<MoodyStore>,
    table: Arc<ServedTable>,
}

/// `cached_rows` 0: no hot cache.
fn setup(kinds: &[LevelKind], cached_rows: usize, holds: CacheHolds, threshold: f64) -> Setup {
    let [ram, redis, persistent] = [1_000, 1_000, u64::MAX].map(MoodyStore::new);
    let levels = kinds.iter().map(|kind| match kind {
        LevelKind::Ram => level(*kind, &ram, true),
        LevelKind::Redis => level(*kind, &redis, true),
        LevelKind::Persistent => level(*kind, &persistent, false),
    });
    let tag = TagStyle::Hps.table_tag("m", "t");
    let spec = TableSpec { tag, key_kind: KeyKind::I64, dim: DIM, default_value: DEFAULT };
    let shape = match holds {
        CacheHolds::Recent => HotCacheShape::evicting(cached_rows, DIM),
        CacheHolds::All => HotCacheShape::resident(cached_rows, DIM, usize::MAX),
    };
    let cache = TableCacheConfig {
        shape: shape.expect("a small cache"),
        holds,
        hit_rate_threshold: threshold,
    };
    let caches = if cached_rows == 0 { vec![] } else { vec![(Device::Cpu, cache)] };
    let fills = Arc::new(FillThreads::start(1).expect("a thread"));
    let levels = TableLevels::new(spec, levels.collect());
    let table = ServedTable::new(ServedTableConfig { levels, caches, fills }).expect("memory");
    Setup { ram, redis, persistent, table: Arc::new(table) }
}

const ALL: [LevelKind; 3] = [LevelKind::Ram, LevelKind::Redis, LevelKind::Persistent];

fn look_up(table: &Arc<ServedTable>, keys: &[i64]) -> (Vec<f32>, LookupStats) {
    let mut rows = vec![f32::NAN; keys.len() * DIM];
    let stats = table.look_up(keys, MissingRows::AsConfigured, &mut rows).expect("keys of 64 bits");
    (rows, stats)
}

/// Waits for something that others do; fails after a while.
#[track_caller]
fn eventually(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not come to hold");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn rows_come_from_the_first_level_that_has_them() {
    let Setup { ram, redis, persistent, table } = setup(&ALL, 0, CacheHolds::Recent, 1.1);
    ram.put_many(&[1], &rows(&[1], 10)).unwrap();
    redis.put_many(&[1, 2], &rows(&[1, 2], 20)).unwrap();
    persistent.put_many(&[1, 2, 3], &rows(&[1, 2, 3], 30)).unwrap();
    let (found, stats) = look_up(&table, &[3, 2, 1, 4, 3, i64::MAX]);
    let want = [row(3, 30), row(2, 20), row(1, 10), [DEFAULT; 2], row(3, 30), [DEFAULT; 2]];
    assert_eq!(found, want.concat());
    assert_eq!((stats.keys, stats.unique, stats.defaults, stats.unanswered), (6, 5, 2, 0));
    let asked = [&ram, &redis, &persistent].map(|store| store.asked.load(Ordering::Relaxed));
    assert_eq!(asked, [5, 4, 3], "each level is asked for what is missing, and once for a key");
}

#[test]
fn only_real_rows_of_the_persistent_level_go_up() {
    let Setup { ram, redis, persistent, table } = setup(&ALL, 0, CacheHolds::Recent, 1.1);
    redis.put_many(&[2], &rows(&[2], 20)).unwrap();
    persistent.put_many(&[3], &rows(&[3], 30)).unwrap();
    look_up(&table, &[2, 3, 4]);
    assert_eq!((ram.count().unwrap(), redis.count().unwrap()), (1, 2));
    persistent.fails.store(true, Ordering::Relaxed);
    assert_eq!(look_up(&table, &[3]).0, row(3, 30));
}

#[test]
fn at_the_threshold_nobody_waits_and_below_it_all_do() {
    let Setup { persistent, table, .. } = setup(&ALL, 1_000, CacheHolds::Recent, 0.5);
    let keys = [1, 2, 3, 4];
    persistent.put_many(&keys, &rows(&keys, 7)).unwrap();
    // Nothing is there: below.
    let (found, stats) = look_up(&table, &[1, 2]);
    assert_eq!((found, stats.hits, stats.deferred), (rows(&[1, 2], 7), 0, 0));
    // Two of four: at it, and duplicates do not count.
    let (found, stats) = look_up(&table, &[1, 2, 3, 4, 1, 1, 1]);
    assert_eq!((stats.unique, stats.hits, stats.deferred), (4, 2, 2));
    let missing = [DEFAULT; 2];
    let [one, two] = [row(1, 7), row(2, 7)];
    assert_eq!(found, [one, two, missing, missing, one, one, one].concat());
    eventually(|| look_up(&table, &[1, 2, 3, 4]).1.hits == 4);
    assert_eq!(look_up(&table, &keys).0, rows(&keys, 7));
}

#[test]
fn without_a_hot_cache_nothing_is_deferred() {
    let Setup { persistent, table, .. } = setup(&ALL, 0, CacheHolds::Recent, 0.0);
    persistent.put_many(&[1], &rows(&[1], 7)).unwrap();
    assert_eq!(look_up(&table, &[1]).0, row(1, 7));
    assert_eq!(look_up(&table, &[]).1, LookupStats::default());
}

#[test]
fn a_hint_brings_rows_into_the_hot_cache_once() {
    let Setup { persistent, table, .. } = setup(&ALL, 1_000, CacheHolds::Recent, 1.1);
    persistent.put_many(&[1, 2], &rows(&[1, 2], 7)).unwrap();
    persistent.hangs.store(true, Ordering::Relaxed);
    let hinted = |keys: &[i64]| {
        let Prefetched { unique, queued, pending, dropped } = table.prefetch(keys).unwrap();
        [unique, queued, pending, dropped]
    };
    assert_eq!(hinted(&[1, 2, 1]), [2, 2, 0, 0]);
    assert_eq!(hinted(&[2, 3]), [2, 1, 1, 0]);
    // One thread, which hangs, and 64 that wait: there is an end to it.
    let all: Vec<[usize; 4]> = (100..200).map(|key| hinted(&[key])).collect();
    assert_eq!((all[0], all[99]), ([1, 1, 0, 0], [1, 0, 0, 1]));
    assert!(table.counters().dropped_fills > 0);
    persistent.hangs.store(false, Ordering::Relaxed);
    // Whatever failed while it hung is asked for again.
    eventually(|| table.prefetch(&[1, 2]).is_ok() && look_up(&table, &[1, 2]).1.hits == 2);
    let without = setup(&ALL, 0, CacheHolds::Recent, 1.1).table;
    assert_eq!(without.prefetch(&[1]).unwrap(), Prefetched { unique: 1, ..Prefetched::default() });
}

#[test]
fn a_warm_cache_of_all_rows_never_misses() {
    let Setup { ram, redis, persistent, table } = setup(&ALL, 5_000, CacheHolds::All, 1.1);
    let keys: Vec<i64> = (0..5_000).map(|key| key * 977 - 1_000_000).collect();
    persistent.put_many(&keys, &rows(&keys, 7)).unwrap();
    assert_eq!(table.warm_up(0).unwrap(), 5_000);
    for store in [ram, redis, persistent] {
        store.fails.store(true, Ordering::Relaxed);
    }
    let (found, stats) = look_up(&table, &keys);
    assert!(found == rows(&keys, 7) && stats.hits == 5_000);
}

#[test]
fn updates_reach_every_level_and_the_hot_cache() {
    let Setup { ram, redis, persistent, table } = setup(&ALL, 100, CacheHolds::Recent, 1.1);
    persistent.put_many(&[1, 2], &rows(&[1, 2], 1)).unwrap();
    look_up(&table, &[1, 2]);
    table.update(UpdateScope::Own, &[1], &row(1, 2)).unwrap();
    assert_eq!(look_up(&table, &[1, 2]).0, [row(1, 2), row(2, 1)].concat());
    let version = |store: &MoodyStore| {
        let (mut found_row, mut found) = ([0.0; 2], [false]);
        store.get_many(&[1], &mut found_row, &mut found).unwrap();
        found[0].then_some(found_row[1])
    };
    assert_eq!([&ram, &persistent].map(|store| version(store)), [Some(2.0), Some(2.0)]);
    table.update(UpdateScope::Shared, &[1], &row(1, 3)).unwrap();
    assert_eq!(version(&redis), Some(3.0));
    persistent.fails.store(true, Ordering::Relaxed);
    assert!(table.update(UpdateScope::Own, &[1], &row(1, 4)).is_err(), "it is to come again");
}

#[test]
fn a_refresh_brings_what_is_there_up_to_date_and_nothing_else() {
    let Setup { persistent, table, .. } =
        setup(&[LevelKind::Persistent], 100, CacheHolds::Recent, 1.1);
    let keys: Vec<i64> = (0..50).collect();
    persistent.put_many(&keys, &rows(&keys, 1)).unwrap();
    look_up(&table, &keys[..30]);
    persistent.put_many(&keys, &rows(&keys, 2)).unwrap();
    assert_eq!(look_up(&table, &keys[..30]).0, rows(&keys[..30], 1), "old rows until a refresh");
    let sets = table.caches()[0].cache().sets();
    let walked: usize = (0..sets).map(|set| table.refresh(0, set..set + 1).unwrap()).sum();
    assert_eq!(walked, 30);
    assert_eq!(look_up(&table, &keys[..30]).0, rows(&keys[..30], 2));
}

#[test]
fn caches_are_refreshed_at_intervals_of_fractions_of_a_second_and_on_request() {
    let Setup { persistent, table, .. } =
        setup(&[LevelKind::Persistent], 100, CacheHolds::Recent, 1.1);
    let version = |table: &Arc<ServedTable>| look_up(table, &[7]).0[1];
    let plan = |delay, interval| RefreshPlan {
        table: Arc::clone(&table),
        delay: Some(Duration::from_millis(delay)),
        interval,
        share: 0.3,
    };
    persistent.put_many(&[7], &row(7, 1)).unwrap();
    assert_eq!(version(&table), 1.0);
    {
        let interval = Some(Duration::from_millis(20));
        let refresh = CacheRefresh::start(vec![plan(500, interval)]).unwrap();
        persistent.put_many(&[7], &row(7, 2)).unwrap();
        eventually(|| version(&table) == 2.0);
        let walks = refresh.walks();
        persistent.put_many(&[7], &row(7, 3)).unwrap();
        eventually(|| version(&table) == 3.0);
        assert!(refresh.walks() > walks);
    }
    let refresh = CacheRefresh::start(vec![plan(3_600_000, None)]).unwrap();
    persistent.put_many(&[7], &row(7, 4)).unwrap();
    refresh.request();
    eventually(|| version(&table) == 4.0);
}

#[test]
fn levels_that_fail_or_hang_are_passed_by() {
    let Setup { ram, redis, persistent, table } = setup(&ALL, 0, CacheHolds::Recent, 1.1);
    persistent.put_many(&[1, 2], &rows(&[1, 2], 5)).unwrap();
    redis.fails.store(true, Ordering::Relaxed);
    assert_eq!(look_up(&table, &[1]).0, row(1, 5), "Redis is down, the persistent level serves");
    ram.put_many(&[3], &rows(&[3], 6)).unwrap();
    persistent.hangs.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let mut stats = LookupStats::default();
    for _ in 0..20 {
        let found;
        (found, stats) = look_up(&table, &[2, 3]);
        assert_eq!(found, [[DEFAULT; 2], row(3, 6)].concat());
    }
    assert_eq!((stats.defaults, stats.unanswered), (1, 1));
    assert!(begun.elapsed() < Duration::from_secs(20), "breakers open");
    persistent.hangs.store(false, Ordering::Relaxed);
    redis.fails.store(false, Ordering::Relaxed);
    eventually(|| look_up(&table, &[2]).0 == row(2, 5));
    let counters = table.levels().levels()[1].counters();
    assert!(counters.calls.errors[0] >= 3 && counters.calls.opened >= 1, "{counters:?}");
}
