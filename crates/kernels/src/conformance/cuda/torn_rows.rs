//! Whether a query of the hot cache ever gives a mixture of two rows.
//!
//! Rows say whose they are and which version: all their numbers are the same. Three streams work on
//! one small cache: one queries, one inserts and evicts, one writes new versions of what is there.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, Device};

use super::super::SplitMix;
use super::super::placed::Placed;
use crate::error::Error;
use crate::gather::gather_ops::GatherOps;
use crate::gather::hot_cache::{CacheWrite, CudaHotCache, HotCacheShape, QueryArgs, WriteArgs};

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TornRows {
    pub queried: u64,
    pub hits: u64,
    /// Rows that are no row of their key.
    pub mixed: u64,
}

/// Keys, so many more than the cache holds that writes evict all the time.
const KEYS: usize = 12_000;
const CACHED_ROWS: usize = 8_000;
const QUERY_KEYS: usize = 1 << 18;
const VERSIONS: i64 = 64;
/// Launches of each writer beside a query.
const WRITES: usize = 6;

/// Queries at least so many rows, of so many numbers each.
pub fn torn_rows(
    device: &Arc<CudaDevice>,
    dim: usize,
    rows: u64,
    seed: u64,
) -> Result<TornRows, Error> {
    let mut random = SplitMix::new(seed);
    let open = || CudaDevice::open(device.info());
    let reader = GatherOps::new(&open()?)?;
    let writers = [GatherOps::new(&open()?)?, GatherOps::new(&open()?)?];
    let shape = HotCacheShape::evicting(CACHED_ROWS, dim).expect("a small cache");
    let cache = CudaHotCache::new(device, shape)?;
    let home = Device::Cuda(Arc::clone(device));
    let mut batches: Vec<Batch> =
        (0..8).map(|at| Batch::new(&home, dim, at % VERSIONS, &mut random)).collect();
    let keys: Vec<i64> = (0..QUERY_KEYS).map(|_| random.below(KEYS) as i64).collect();
    let placed = Placed::of(&home, &keys, [QUERY_KEYS]);
    let mut found = Placed::poisoned(&home, DType::F32, [QUERY_KEYS, dim]);
    let mut missed_keys = Placed::of(&home, &vec![0i64; QUERY_KEYS], [QUERY_KEYS]);
    let mut missed_at = Placed::of(&home, &vec![0i32; QUERY_KEYS], [QUERY_KEYS]);
    let mut result = TornRows::default();
    while result.queried < rows {
        for (writer, how) in writers.iter().zip([CacheWrite::Evict, CacheWrite::Present]) {
            for _ in 0..WRITES {
                let batch = random.below(batches.len());
                batches[batch].write(writer, &cache, how)?;
            }
        }
        let mut counters = [0, 0].map(|start| Placed::of(&home, &[start], [1]));
        let [missed, next_missed] = &mut counters;
        reader.query(
            &cache,
            QueryArgs {
                keys: placed.view(),
                unique: None,
                default_value: -1.0,
                rows: found.view_mut(),
                missed_keys: missed_keys.view_mut(),
                missed_at: missed_at.view_mut(),
                missed: missed.view_mut(),
                next_missed: next_missed.view_mut(),
                host_hits: None,
            },
        )?;
        reader.device().synchronize()?;
        result.count(&keys, &found.to_numbers(), dim);
    }
    writers.iter().try_for_each(|writer| writer.device().synchronize())?;
    Ok(result)
}

impl TornRows {
    fn count(&mut self, keys: &[i64], rows: &[f32], dim: usize) {
        for (key, row) in keys.iter().zip(rows.chunks_exact(dim)) {
            let is_hit = row[0] != -1.0;
            let is_whole = row.iter().all(|number| *number == row[0]);
            let is_own = !is_hit || row[0] as i64 / VERSIONS == *key;
            self.queried += 1;
            self.hits += u64::from(is_hit);
            self.mixed += u64::from(!is_whole || !is_own);
        }
    }
}

/// Rows of all keys in some order, all of one version.
struct Batch {
    keys: Placed,
    rows: Placed,
    refused: Placed,
}

impl Batch {
    fn new(home: &Device, dim: usize, version: i64, random: &mut SplitMix) -> Self {
        let mut keys: Vec<i64> = (0..KEYS as i64).collect();
        for at in (1..KEYS).rev() {
            keys.swap(at, random.below(at + 1));
        }
        let number = |key: &i64| (*key * VERSIONS + version) as f32;
        let rows: Vec<f32> =
            keys.iter().flat_map(|key| std::iter::repeat_n(number(key), dim)).collect();
        Batch {
            keys: Placed::of(home, &keys, [KEYS]),
            rows: Placed::of(home, &rows, [KEYS, dim]),
            refused: Placed::of(home, &[0i32], [1]),
        }
    }

    fn write(
        &mut self,
        writer: &GatherOps,
        cache: &CudaHotCache,
        how: CacheWrite,
    ) -> Result<(), Error> {
        let (keys, rows) = (self.keys.view(), self.rows.view());
        let refused = self.refused.view_mut();
        writer.write(cache, WriteArgs { keys, rows, row_at: None, how, refused })
    }
}
