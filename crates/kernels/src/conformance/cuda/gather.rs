//! Look-ups of rows: the different keys of a batch, rows by index, and the hot cache, whose queries
//! and writes are held to the reference's, step by step.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, Device};

use super::super::placed::Placed;
use super::super::{Report, SIZES, SplitMix};
use crate::error::Error;
use crate::gather::dedupe_keys::{self, DedupeArgs};
use crate::gather::expand_rows::expand_rows;
use crate::gather::gather_ops::GatherOps;
use crate::gather::hot_cache::reference::first_set;
use crate::gather::hot_cache::{
    CacheWrite, CudaHotCache, HostHits, HostHotCache, HotCacheShape, QueryArgs, WriteArgs,
};

pub(super) fn check(
    device: &Arc<CudaDevice>,
    random: &mut SplitMix,
    report: &mut Report,
) -> Result<(), Error> {
    let ops = GatherOps::new(device)?;
    let home = Device::Cuda(Arc::clone(device));
    for count in SIZES.into_iter().chain([5_000, 100_000]) {
        dedupe(&ops, &home, count, random, report);
        expand(&ops, &home, count, random, report);
    }
    for dim in [1, 3, 4, 16, 33, 64, 100, 129] {
        hot_cache_history(&ops, &home, dim, random, report)?;
        for device_share in [1.0, 0.5, 0.0] {
            resident_rows(&ops, &home, dim, device_share, random, report)?;
        }
    }
    Ok(())
}

fn dedupe(
    ops: &GatherOps,
    home: &Device,
    count: usize,
    random: &mut SplitMix,
    report: &mut Report,
) {
    if report.skips("dedupe_keys") {
        return;
    }
    let keys: Vec<i64> = (0..count).map(|_| random.below(1 + count / 2) as i64 - 3).collect();
    let slots = (2 * count).next_power_of_two();
    let placed = Placed::of(home, &keys, [count]);
    let mut table = Placed::of(home, &vec![-1i32; slots], [slots]);
    let mut numbers = [0; 2].map(|_| Placed::of(home, &vec![0i32; count], [count]));
    let [scratch, inverse] = &mut numbers;
    let mut unique_keys = Placed::of(home, &vec![0i64; count], [count]);
    let mut counters = [0, 7].map(|start| Placed::of(home, &[start], [1]));
    let [unique, next_unique] = &mut counters;
    ops.dedupe(DedupeArgs {
        keys: placed.view(),
        table: table.view_mut(),
        slots: scratch.view_mut(),
        unique_keys: unique_keys.view_mut(),
        inverse: inverse.view_mut(),
        unique: unique.view_mut(),
        next_unique: next_unique.view_mut(),
    });
    let (mut want, mut want_inverse) = (Vec::new(), Vec::new());
    dedupe_keys::dedupe_keys(&keys, &mut want, &mut want_inverse);
    let found = keys_of(&unique_keys);
    let found = &found[..unique.to_ids()[0] as usize];
    let is_right = inverse.to_ids().iter().zip(&keys).all(|(at, key)| found[*at as usize] == *key)
        && found.len() == want.len()
        && next_unique.to_ids() == [0]
        && table.to_ids().iter().all(|slot| *slot == -1);
    report.compare_exactly("dedupe_keys", format!("{count} keys"), &[is_right], &[true]);
}

fn expand(
    ops: &GatherOps,
    home: &Device,
    count: usize,
    random: &mut SplitMix,
    report: &mut Report,
) {
    if report.skips("expand_rows") {
        return;
    }
    let (dim, rows) = (1 + random.below(70), 1 + random.below(40));
    let from: Vec<f32> = (0..rows * dim).map(|at| at as f32).collect();
    let index: Vec<i32> = (0..count).map(|_| random.below(rows) as i32).collect();
    let placed = Placed::of(home, &from, [rows, dim]);
    let at = Placed::of(home, &index, [count]);
    let mut to = Placed::poisoned(home, DType::F32, [count, dim]);
    ops.expand_rows(placed.view(), at.view(), to.view_mut());
    let mut want = vec![0.0; count * dim];
    let index: Vec<u32> = index.iter().map(|at| at.cast_unsigned()).collect();
    expand_rows(&from, &index, dim, &mut want);
    let is_right = to.to_numbers() == want;
    let mut order: Vec<i32> = (0..rows as i32).collect();
    (1..rows).rev().for_each(|at| order.swap(at, random.below(at + 1)));
    let at = Placed::of(home, &order, [rows]);
    let mut scattered = Placed::poisoned(home, DType::F32, [rows, dim]);
    ops.scatter_rows(placed.view(), at.view(), scattered.view_mut());
    let scattered = scattered.to_numbers();
    let is_right = is_right
        && order.iter().zip(from.chunks_exact(dim)).all(|(at, row)| {
            let at = at.cast_unsigned() as usize;
            scattered[at * dim..][..dim] == *row
        });
    report.compare_exactly(
        "expand_rows",
        format!("{count} of {rows} rows of {dim}"),
        &[is_right],
        &[true],
    );
}

/// Writes and queries in turn. The keys of a write have different sets: which of two keys of one
/// set comes first is nobody's promise.
fn hot_cache_history(
    ops: &GatherOps,
    home: &Device,
    dim: usize,
    random: &mut SplitMix,
    report: &mut Report,
) -> Result<(), Error> {
    if report.skips("hot_cache") {
        return Ok(());
    }
    let shape = HotCacheShape::evicting(300, dim).expect("a small cache");
    let mut want = HostHotCache::new(shape)?;
    let mut pair = CachePair::new(ops, home, shape)?;
    let mut is_right = true;
    for version in 0..200 {
        let mut keys: Vec<i64> =
            (0..1 + random.below(80)).map(|_| random.below(600) as i64 - 300).collect();
        keys.sort_unstable_by_key(|key| first_set(shape, *key));
        keys.dedup_by_key(|key| first_set(shape, *key));
        let rows: Vec<f32> = keys.iter().flat_map(|key| row(*key, version, dim)).collect();
        match random.below(4) {
            0 | 1 => {
                let how = [CacheWrite::Evict, CacheWrite::Present][random.below(2)];
                want.write(&keys, &rows, how);
                pair.write(&keys, &rows, how)?;
            }
            _ => {
                let (mut found, mut missed) = (vec![0.0; rows.len()], Vec::new());
                want.query(&keys, 0.25, &mut found, &mut missed);
                is_right &= pair.query(&keys, 0.25)? == (found, missed);
            }
        }
    }
    let mut keys = Vec::new();
    want.keys_of(0..shape.sets(), &mut keys);
    keys.sort_unstable();
    is_right &= pair.keys()? == keys;
    report.compare_exactly("hot_cache", format!("rows of {dim}, evicting"), &[is_right], &[true]);
    Ok(())
}

/// Every row that was put in is there, however keys meet; a second write of all of them replaces
/// them, also where a key comes twice.
fn resident_rows(
    ops: &GatherOps,
    home: &Device,
    dim: usize,
    device_share: f64,
    random: &mut SplitMix,
    report: &mut Report,
) -> Result<(), Error> {
    if report.skips("hot_cache_resident") {
        return Ok(());
    }
    let count = 1 + random.below(40_000);
    let budget = (count as f64 * device_share * dim as f64 * 4.0) as usize;
    let shape = HotCacheShape::resident(count, dim, budget).expect("a small cache");
    let mut pair = CachePair::new(ops, home, shape)?;
    let mut keys: Vec<i64> = vec![i64::MAX, i64::MIN, -1, 0];
    keys.extend((4..count).map(|_| random.bits().cast_signed()));
    keys.truncate(count);
    let rows = |version: i64| -> Vec<f32> {
        keys.iter().flat_map(|key| row(*key, version, dim)).collect()
    };
    pair.write(&keys, &rows(1), CacheWrite::Resident)?;
    let mut is_right = pair.query(&keys, 0.0)? == (rows(1), Vec::new());
    pair.write(&keys, &rows(2), CacheWrite::Resident)?;
    pair.write(&[&keys[..], &keys[..]].concat(), &rows(3).repeat(2), CacheWrite::Present)?;
    is_right &= pair.query(&keys, 0.0)? == (rows(3), Vec::new());
    keys.sort_unstable();
    is_right &= pair.keys()? == keys && pair.refused() == 0;
    let case = format!("{count} rows of {dim}, {} bytes in host memory", shape.host_row_bytes());
    report.compare_exactly("hot_cache_resident", case, &[is_right], &[true]);
    Ok(())
}

/// All numbers of a row follow from its key and version.
pub(super) fn row(key: i64, version: i64, dim: usize) -> impl Iterator<Item = f32> {
    let base = key.rem_euclid(1 << 16) as f32 * 256.0 + version as f32;
    (0..dim).map(move |column| base + column as f32 / 256.0)
}

/// A cache on the device with what calls need.
pub(super) struct CachePair<'a> {
    ops: &'a GatherOps,
    home: &'a Device,
    cache: CudaHotCache,
    refused: Placed,
}

impl<'a> CachePair<'a> {
    pub(super) fn new(
        ops: &'a GatherOps,
        home: &'a Device,
        shape: HotCacheShape,
    ) -> Result<Self, Error> {
        let cache = CudaHotCache::new(ops.device(), shape)?;
        Ok(CachePair { ops, home, cache, refused: Placed::of(home, &[0i32], [1]) })
    }

    pub(super) fn cache(&self) -> &CudaHotCache {
        &self.cache
    }

    pub(super) fn write(
        &mut self,
        keys: &[i64],
        rows: &[f32],
        how: CacheWrite,
    ) -> Result<(), Error> {
        let dim = self.cache.shape().dim();
        let placed = Placed::of(self.home, keys, [keys.len()]);
        let rows = Placed::of(self.home, rows, [keys.len(), dim]);
        self.ops.write(
            &self.cache,
            WriteArgs {
                keys: placed.view(),
                rows: rows.view(),
                row_at: None,
                how,
                refused: self.refused.view_mut(),
            },
        )?;
        Ok(self.ops.device().synchronize()?)
    }

    /// Rows, and the indices of missed keys in ascending order.
    fn query(&self, keys: &[i64], default_value: f32) -> Result<(Vec<f32>, Vec<u32>), Error> {
        let (home, count, dim) = (self.home, keys.len(), self.cache.shape().dim());
        let placed = Placed::of(home, keys, [count]);
        let mut rows = Placed::poisoned(home, DType::F32, [count, dim]);
        let mut missed_keys = Placed::of(home, &vec![0i64; count], [count]);
        let mut missed_at = Placed::of(home, &vec![0i32; count], [count]);
        let [mut missed, mut next_missed] = [0, 9].map(|start| Placed::of(home, &[start], [1]));
        let mut host_hits = HostHits::new(self.ops.device(), count)?;
        self.ops.query(
            &self.cache,
            QueryArgs {
                keys: placed.view(),
                unique: None,
                default_value,
                rows: rows.view_mut(),
                missed_keys: missed_keys.view_mut(),
                missed_at: missed_at.view_mut(),
                missed: missed.view_mut(),
                next_missed: next_missed.view_mut(),
                host_hits: Some(&mut host_hits),
            },
        )?;
        assert_eq!(next_missed.to_ids(), [0], "the next query's counter");
        let missed = missed.to_ids()[0] as usize;
        let missed_keys = &keys_of(&missed_keys)[..missed];
        let mut at: Vec<u32> =
            missed_at.to_ids()[..missed].iter().map(|at| at.cast_unsigned()).collect();
        let pairs = missed_keys.iter().zip(&at);
        for (key, at) in pairs {
            assert_eq!(*key, keys[*at as usize], "a missed key and its index");
        }
        at.sort_unstable();
        Ok((rows.to_numbers(), at))
    }

    /// All keys, in ascending order.
    fn keys(&self) -> Result<Vec<i64>, Error> {
        let shape = self.cache.shape();
        let mut keys = Placed::of(self.home, &vec![0i64; shape.slots()], [shape.slots()]);
        let mut count = Placed::of(self.home, &[0i32], [1]);
        self.ops.keys(&self.cache, 0..shape.sets(), keys.view_mut(), count.view_mut())?;
        let mut keys = keys_of(&keys);
        keys.truncate(count.to_ids()[0] as usize);
        keys.sort_unstable();
        Ok(keys)
    }

    fn refused(&self) -> i32 {
        self.refused.to_ids()[0]
    }
}

fn keys_of(placed: &Placed) -> Vec<i64> {
    let bytes = placed.bytes();
    bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
}
