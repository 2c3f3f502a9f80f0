//! Rows of a hot cache pooled by slot, held to the same of the reference's cache.

use terrace_device::{DType, Device};

use super::super::placed::Placed;
use super::super::{Report, SplitMix};
use super::gather::{CachePair, row};
use crate::ctr::pool_rows::Combiner;
use crate::error::Error;
use crate::gather::gather_ops::GatherOps;
use crate::gather::hot_cache::{CacheWrite, HostHotCache, HotCacheShape};
use crate::gather::pool_cached::{POOLED_DIM_MOST, PoolCachedArgs, PoolHostArgs, reference};

const OP: &str = "pool_cached";
const DEFAULT_VALUE: f32 = 0.375;

pub(super) fn check(
    ops: &GatherOps,
    home: &Device,
    random: &mut SplitMix,
    report: &mut Report,
) -> Result<(), Error> {
    for dim in [1, 3, 4, 16, 31, 32, 33, 64, 100, 128, 129, 200, POOLED_DIM_MOST] {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            for kind in [CacheKind::Evicting, CacheKind::Resident, CacheKind::HalfInHost] {
                if !report.skips(OP) {
                    pooled(ops, home, &Case::random(random, dim, dtype, kind), random, report)?;
                }
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum CacheKind {
    Evicting,
    Resident,
    HalfInHost,
}

#[derive(Debug)]
struct Case {
    dim: usize,
    dtype: DType,
    kind: CacheKind,
    /// That are in the cache.
    rows: usize,
    samples: usize,
    slots: usize,
    is_one_hot: bool,
    /// Keys have 32 bits.
    is_narrow: bool,
    has_all: bool,
    combiner: Combiner,
    /// Numbers before and behind the columns that are written.
    beside: [usize; 2],
}

impl Case {
    fn random(random: &mut SplitMix, dim: usize, dtype: DType, kind: CacheKind) -> Self {
        // Now and then so many that blocks have several segments for each of their groups.
        let samples_most = if random.below(16) == 0 { 4_000 } else { 40 };
        Case {
            dim,
            dtype,
            kind,
            rows: 1 + random.below(3_000),
            samples: 1 + random.below(samples_most),
            slots: [1, 2, 7, 26][random.below(4)],
            is_one_hot: random.below(2) == 0,
            is_narrow: random.below(2) == 0,
            has_all: random.below(2) == 0,
            combiner: [Combiner::Sum, Combiner::Mean][random.below(2)],
            beside: [[0, 0], [8, 8], [3, 2], [0, 5]][random.below(4)],
        }
    }

    fn shape(&self) -> HotCacheShape {
        let row_bytes = self.dim * size_of::<f32>();
        let shape = match self.kind {
            // So many that each set has room for its keys.
            CacheKind::Evicting => HotCacheShape::evicting(20 * self.rows, self.dim),
            CacheKind::Resident => HotCacheShape::resident(self.rows, self.dim, usize::MAX),
            CacheKind::HalfInHost => {
                HotCacheShape::resident(self.rows, self.dim, self.rows * row_bytes / 2)
            }
        };
        shape.expect("a small cache")
    }

    fn keys(&self, random: &mut SplitMix) -> (Vec<i64>, Vec<i32>) {
        let below = if self.has_all { self.rows } else { 2 * self.rows };
        let (mut keys, mut offsets) = (Vec::new(), vec![0]);
        for _ in 0..self.samples * self.slots {
            let count = if self.is_one_hot { 1 } else { [0, 1, 1, 2, 3, 17][random.below(6)] };
            keys.extend((0..count).map(|_| random.below(below) as i64));
            offsets.push(keys.len() as i32);
        }
        (keys, offsets)
    }
}

fn pooled(
    ops: &GatherOps,
    home: &Device,
    case: &Case,
    random: &mut SplitMix,
    report: &mut Report,
) -> Result<(), Error> {
    let Case { dim, dtype, samples, slots, combiner, .. } = *case;
    let (mut host, mut pair) =
        (HostHotCache::new(case.shape())?, CachePair::new(ops, home, case.shape())?);
    let cached: Vec<i64> = (0..case.rows as i64).collect();
    // Small enough that sums of a few are exact enough in every type.
    let rows: Vec<f32> = cached.iter().flat_map(|key| row(*key, 1, dim)).collect();
    let rows: Vec<f32> = rows.into_iter().map(|number| (number * 0.37).sin()).collect();
    let how = match case.kind {
        CacheKind::Evicting => CacheWrite::Evict,
        CacheKind::Resident | CacheKind::HalfInHost => CacheWrite::Resident,
    };
    host.write(&cached, &rows, how);
    pair.write(&cached, &rows, how)?;
    let (keys, offsets) = case.keys(random);
    let mut want = vec![f32::NAN; samples * slots * dim];
    let args =
        PoolHostArgs { keys: &keys, offsets: &offsets, combiner, default_value: DEFAULT_VALUE };
    let has_all = reference::pool_cached(&host, args, &mut want);
    let [before, behind] = case.beside;
    let (width, stride) = (slots * dim, before + slots * dim + behind);
    let mut out = Placed::poisoned(home, dtype, [samples, stride]);
    // There is always something to look at.
    let some_keys = [&keys[..], &[0]].concat();
    let narrow: Vec<i32> = some_keys.iter().map(|key| *key as i32).collect();
    let placed_keys = match case.is_narrow {
        true => Placed::of(home, &narrow, [narrow.len()]),
        false => Placed::of(home, &some_keys, [some_keys.len()]),
    };
    let placed_offsets = Placed::of(home, &offsets, [offsets.len()]);
    let now = Placed::of(home, &[ops.begin_query(pair.cache())?.cast_signed()], [1]);
    let mut missed = Placed::of(home, &[0i32], [1]);
    let [_, columns, _] = out.view_mut().split_columns([before, width, behind]);
    ops.pool_cached(
        pair.cache(),
        PoolCachedArgs {
            keys: placed_keys.view().first(keys.len()),
            offsets: (!case.is_one_hot).then(|| placed_offsets.view()),
            combiner,
            default_value: DEFAULT_VALUE,
            now: now.view(),
            missed: missed.view_mut(),
            out: columns,
        },
    )?;
    let (mut got, mut is_clean) = (Vec::with_capacity(want.len()), true);
    for row in out.to_numbers().chunks_exact(stride) {
        got.extend_from_slice(&row[before..before + width]);
        let beside = row[..before].iter().chain(&row[before + width..]);
        is_clean &= beside.into_iter().all(|number| number.is_nan());
    }
    is_clean &= missed.to_ids() == [i32::from(!has_all)];
    report.compare_exactly(OP, format!("beside, {case:?}"), &[is_clean], &[true]);
    report.compare(OP, format!("{case:?}"), limit(dtype), &got, &want);
    Ok(())
}

fn limit(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 4e-6,
        DType::F16 => 1.0 / 512.0,
        _ => 1.0 / 128.0,
    }
}
