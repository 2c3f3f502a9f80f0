//! Whether a look-up ever gives a mixture of two rows, whatever is written beside it.
//!
//! On a GPU: queries of hot caches while other streams insert, evict and write new versions. On the
//! CPU: look-ups through a hot cache and the level in memory, while others update and refresh. A
//! row has its key and version in every number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use terrace_device::Device;
use terrace_device::cuda::CudaDevice;
use terrace_embedding::{
    CacheHolds, FillThreads, KeyKind, Level, LevelConfig, LevelKind, MissingRows, OverflowConfig,
    OverflowPolicy, PartitionRule, RamStore, RamStoreConfig, ServedTable, ServedTableConfig,
    TableCacheConfig, TableLevels, TableSpec, TagStyle, UpdateScope,
};
use terrace_kernels::HotCacheShape;
use terrace_kernels::conformance::{self, TornRows};
use terrace_tiers::BreakerConfig;

use super::tested_device::TestedDevice;

/// Numbers of a row: below, at and above what one lane of a GPU moves at once.
const DIMS: [usize; 3] = [4, 16, 64];
const KEYS: i64 = 20_000;
const CACHED_ROWS: usize = 12_000;
const VERSIONS: i64 = 128;
const LOOKED_UP: usize = 8_192;
const UPDATED: i64 = 64;

/// At least so many rows, with so many threads that ask.
pub fn check(device: &TestedDevice, rows: u64, seed: u64) -> Result<()> {
    let begun = Instant::now();
    let mut all = TornRows::default();
    for dim in DIMS {
        let share = rows.div_ceil(DIMS.len() as u64);
        let found = match device {
            TestedDevice::Cpu { threads, .. } => on_cpu(dim, share, *threads, seed)?,
            TestedDevice::Cuda { device, threads, .. } => {
                on_cuda(device, dim, share, *threads, seed)?
            }
        };
        let TornRows { queried, hits, mixed } = found;
        println!("rows of {dim:2} numbers: {queried} queried, {hits} found, {mixed} mixed");
        all.queried += queried;
        all.mixed += mixed;
    }
    let TornRows { queried, mixed, .. } = all;
    if mixed > 0 {
        bail!("{mixed} of {queried} rows were mixed; do not serve tables here, and report it");
    }
    println!("none of {queried} rows was mixed, in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Each thread has a cache and streams of its own.
fn on_cuda(
    device: &Arc<CudaDevice>,
    dim: usize,
    rows: u64,
    threads: usize,
    seed: u64,
) -> Result<TornRows> {
    let share = rows.div_ceil(threads as u64);
    std::thread::scope(|scope| {
        let run = |thread: usize| {
            scope.spawn(move || conformance::torn_rows(device, dim, share, seed + thread as u64))
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        let mut sum = TornRows::default();
        for thread in running {
            let found = thread.join().expect("a thread that does not panic")?;
            sum.queried += found.queried;
            sum.hits += found.hits;
            sum.mixed += found.mixed;
        }
        Ok(sum)
    })
}

fn on_cpu(dim: usize, rows: u64, threads: usize, seed: u64) -> Result<TornRows> {
    let table = Arc::new(table(dim)?);
    let keys: Vec<i64> = (0..KEYS).collect();
    table.update(UpdateScope::Own, &keys, &versioned(&keys, 0, dim))?;
    let is_over = AtomicBool::new(false);
    let [queried, hits, mixed] = [(); 3].map(|()| AtomicU64::new(0));
    std::thread::scope(|scope| -> Result<()> {
        let writers = [
            scope.spawn(|| update(&table, dim, &is_over)),
            scope.spawn(|| refresh(&table, &is_over)),
        ];
        let look_up = |thread: u64| {
            let mut state = seed ^ (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut found = vec![0.0; LOOKED_UP * dim];
            while queried.load(Ordering::Relaxed) < rows {
                let keys: Vec<i64> = (0..LOOKED_UP).map(|_| random_key(&mut state)).collect();
                let stats = table.look_up(&keys, MissingRows::AsConfigured, &mut found)?;
                let is_mixed = |(key, row): &(&i64, &[f32])| !is_of(**key, row);
                let count = keys.iter().zip(found.chunks_exact(dim)).filter(is_mixed).count();
                queried.fetch_add(LOOKED_UP as u64, Ordering::Relaxed);
                hits.fetch_add(stats.hits as u64, Ordering::Relaxed);
                mixed.fetch_add(count as u64, Ordering::Relaxed);
            }
            Ok(())
        };
        let readers: Vec<_> =
            (0..threads as u64).map(|thread| scope.spawn(move || look_up(thread))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            thread.join().expect("a thread that does not panic")
        };
        let read = readers.into_iter().try_for_each(join);
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().try_for_each(join)?;
        read
    })?;
    let [queried, hits, mixed] = [queried, hits, mixed].map(AtomicU64::into_inner);
    Ok(TornRows { queried, hits, mixed })
}

fn table(dim: usize) -> Result<ServedTable> {
    let tag = TagStyle::Hps.table_tag("selftest", "rows");
    let spec = TableSpec { tag, key_kind: KeyKind::I64, dim, default_value: -1.0 };
    let policy = OverflowPolicy::EvictOldest;
    let ram = RamStore::new(RamStoreConfig {
        dim,
        partitions: 4,
        rule: PartitionRule::Mix,
        overflow: OverflowConfig { margin: u64::MAX, policy, target: 0.8 },
        expected_rows: KEYS as u64,
    });
    let level = LevelConfig {
        kind: LevelKind::Ram,
        promotes: false,
        takes_updates: true,
        suspends_itself: false,
        timed_reads: None,
        breaker: BreakerConfig::default(),
    };
    let levels = vec![Level::new(Arc::new(ram), "rows", level)];
    let cache = TableCacheConfig {
        shape: HotCacheShape::evicting(CACHED_ROWS, dim).expect("a small cache"),
        holds: CacheHolds::Recent,
        hit_rate_threshold: 2.0,
    };
    Ok(ServedTable::new(ServedTableConfig {
        levels: TableLevels::new(spec, levels),
        caches: vec![(Device::Cpu, cache)],
        fills: Arc::new(FillThreads::start(1)?),
    })?)
}

fn update(table: &ServedTable, dim: usize, is_over: &AtomicBool) -> Result<()> {
    let mut round = 0;
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        let first = round * UPDATED % KEYS;
        let keys: Vec<i64> = (first..first + UPDATED).map(|key| key % KEYS).collect();
        table.update(UpdateScope::Own, &keys, &versioned(&keys, round % VERSIONS, dim))?;
    }
    Ok(())
}

fn refresh(table: &ServedTable, is_over: &AtomicBool) -> Result<()> {
    let sets = table.caches()[0].cache().sets();
    let mut start = 0;
    while !is_over.load(Ordering::Relaxed) {
        let end = sets.min(start + 16);
        table.refresh(0, start..end)?;
        start = if end == sets { 0 } else { end };
    }
    Ok(())
}

/// Below 2^24, so that every number is exact.
fn versioned(keys: &[i64], version: i64, dim: usize) -> Vec<f32> {
    let number = |key: &i64| (key * VERSIONS + version) as f32;
    keys.iter().flat_map(|key| std::iter::repeat_n(number(key), dim)).collect()
}

fn is_of(key: i64, row: &[f32]) -> bool {
    row.iter().all(|number| *number == row[0]) && row[0] as i64 / VERSIONS == key
}

fn random_key(state: &mut u64) -> i64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % KEYS as u64) as i64
}
