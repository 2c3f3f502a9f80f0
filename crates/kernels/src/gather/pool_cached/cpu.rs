//! On the CPU: rows go from the cache to where the network reads them, in one copy.
//!
//! What a key needs from memory is asked for ahead of it: first its set, then its row.

use std::sync::atomic::{AtomicBool, Ordering};

use terrace_device::{SharedRows, ViewMut};

use super::{PoolHostArgs, reference};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::gather::hot_cache::HostHotCache;

/// Samples of a task: some microseconds of work.
const TASK_SAMPLES: usize = 8;
/// How many keys before its use a row is asked for, and how many before that its set.
const ROWS_AHEAD: usize = 8;
const SETS_AHEAD: usize = 16;

/// Whether all keys were there; others have the default value · out: f32 `[samples, slots * dim]`
pub(crate) fn pool_cached(
    ctx: &CpuCtx,
    cache: &HostHotCache,
    args: PoolHostArgs<'_>,
    mut out: ViewMut<'_>,
) -> bool {
    let ([samples, width], dim) = (out.dims(), cache.shape().dim());
    let slots = width / dim;
    assert_eq!(args.offsets.len(), samples * slots + 1, "offsets of pool_cached");
    let (first, last) = (args.offsets[0], args.offsets[samples * slots]);
    assert!(first == 0 && last as usize == args.keys.len(), "keys of pool_cached");
    let now = cache.begin_query();
    let has_missed = AtomicBool::new(false);
    let out = SharedRows::<f32>::new(&mut out);
    ctx.pool.run(samples.div_ceil(TASK_SAMPLES), &|_, task| {
        let first = task * TASK_SAMPLES;
        let last = samples.min(first + TASK_SAMPLES);
        let offsets = &args.offsets[first * slots..=last * slots];
        let keys = &args.keys[offsets[0] as usize..offsets[offsets.len() - 1] as usize];
        let args = PoolHostArgs { keys, offsets, ..args };
        ctx.simd.run(PoolSamples { cache, now, args, first, out: &out, has_missed: &has_missed });
    });
    !has_missed.into_inner()
}

/// Some samples.
struct PoolSamples<'a> {
    cache: &'a HostHotCache,
    now: u16,
    /// Offsets are those of the whole batch.
    args: PoolHostArgs<'a>,
    /// The first sample.
    first: usize,
    out: &'a SharedRows<'a, f32>,
    has_missed: &'a AtomicBool,
}

impl PoolSamples<'_> {
    fn slots(&self) -> usize {
        self.out.width() / self.cache.shape().dim()
    }

    /// Where each slot's vector goes, and its keys.
    fn segments(&self) -> impl Iterator<Item = (&mut [f32], &[i64])> {
        let (slots, dim) = (self.slots(), self.cache.shape().dim());
        let begin = self.args.offsets[0];
        self.args.offsets.windows(2).enumerate().map(move |(i, segment)| {
            let keys = (segment[0] - begin) as usize..(segment[1] - begin) as usize;
            let columns = i % slots * dim..(i % slots + 1) * dim;
            // SAFETY: each sample is one task's, and one slice at a time.
            let out = unsafe { self.out.part_mut(self.first + i / slots, columns) };
            (out, &self.args.keys[keys])
        })
    }
}

impl Kernel for PoolSamples<'_> {
    fn reference(self) {
        for (out, keys) in self.segments() {
            let args = PoolHostArgs { keys, offsets: &[0, keys.len() as i32], ..self.args };
            if !reference::pool_cached(self.cache, args, out) {
                self.has_missed.store(true, Ordering::Relaxed);
            }
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let mut found = FoundRows::new(lanes, self.cache, self.now, self.args.keys);
        for (out, keys) in self.segments() {
            let factor = self.args.combiner.factor(keys.len());
            if keys.is_empty() {
                out.fill(0.0);
            }
            for at in 0..keys.len() {
                match (found.next(), at) {
                    (Some(row), 0) => out.copy_from_slice(row),
                    (Some(row), _) => add(lanes, out, row),
                    (None, 0) => out.fill(self.args.default_value),
                    (None, _) => out.iter_mut().for_each(|it| *it += self.args.default_value),
                }
            }
            if 1 < keys.len() {
                out.iter_mut().for_each(|it| *it *= factor);
            }
        }
        if found.has_missed {
            self.has_missed.store(true, Ordering::Relaxed);
        }
    }
}

#[inline(always)]
fn add<L: Lanes>(lanes: L, out: &mut [f32], row: &[f32]) {
    for (out, row) in out.chunks_mut(L::COUNT).zip(row.chunks(L::COUNT)) {
        lanes.write(lanes.add(lanes.read(out), lanes.read(row)), out);
    }
}

/// Rows of keys, one after the other.
struct FoundRows<'a, L> {
    lanes: L,
    cache: &'a HostHotCache,
    now: u16,
    keys: &'a [i64],
    next: usize,
    /// Of the next keys, by their numbers modulo [`ROWS_AHEAD`].
    rows: [Option<&'a [f32]>; ROWS_AHEAD],
    has_missed: bool,
}

impl<'a, L: Lanes> FoundRows<'a, L> {
    #[inline(always)]
    fn new(lanes: L, cache: &'a HostHotCache, now: u16, keys: &'a [i64]) -> Self {
        let rows = [None; ROWS_AHEAD];
        let mut found = FoundRows { lanes, cache, now, keys, next: 0, rows, has_missed: false };
        (0..SETS_AHEAD).for_each(|at| found.ask_for_set(at));
        (0..ROWS_AHEAD).for_each(|at| found.ask_for_row(at));
        found
    }

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [f32]> {
        let row = self.rows[self.next % ROWS_AHEAD];
        self.has_missed |= row.is_none();
        self.ask_for_set(self.next + SETS_AHEAD);
        self.ask_for_row(self.next + ROWS_AHEAD);
        self.next += 1;
        row
    }

    #[inline(always)]
    fn ask_for_set(&self, at: usize) {
        if let Some(key) = self.keys.get(at) {
            let set = self.cache.first_set(*key);
            self.lanes.prefetch_bytes((&raw const *set).cast(), size_of_val(set));
        }
    }

    #[inline(always)]
    fn ask_for_row(&mut self, at: usize) {
        if let Some(key) = self.keys.get(at) {
            let row = self.cache.hit(*key, self.now);
            if let Some(row) = row {
                self.lanes.prefetch_bytes(row.as_ptr().cast(), size_of_val(row));
            }
            self.rows[at % ROWS_AHEAD] = row;
        }
    }
}
