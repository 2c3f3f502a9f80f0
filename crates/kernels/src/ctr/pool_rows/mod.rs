//! Rows of an embedding table, summed or averaged by feature slot.
//!
//! rows: f32 `[unique, dim]` · index: i32 `[keys]`, the row of each key · offsets: i32
//! `[segments + 1]`, where each slot's keys begin in `index`, and their end · out: act
//! `[samples, slots * dim]`, rows may be strided; segment `i` is slot `i % slots` of sample
//! `i / slots`. A mean divides where there is more than one key; no keys give zeros.
//!
//! Roofline: a row read for each key and one written for each segment; bound by memory bandwidth,
//! where few rows are in cache by its latency.

pub(crate) mod reference;

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combiner {
    Sum,
    Mean,
}

impl Combiner {
    /// What the sum of so many rows is multiplied by.
    pub(crate) fn factor(self, keys: usize) -> f32 {
        match self {
            Combiner::Mean if keys > 1 => 1.0 / keys as f32,
            _ => 1.0,
        }
    }
}

#[derive(Clone, Copy)]
pub struct PoolRowsArgs<'a> {
    pub rows: View<'a>,
    pub index: View<'a>,
    pub offsets: View<'a>,
    pub combiner: Combiner,
}

pub(crate) fn pool_rows(ctx: &CpuCtx, args: &PoolRowsArgs<'_>, mut out: ViewMut<'_>) {
    let ([unique, dim], [samples, width]) = (args.rows.dims(), out.dims());
    let (index, offsets) = (args.index.as_slice::<i32>(), args.offsets.as_slice::<i32>());
    let segments = offsets.len().checked_sub(1).expect("offsets begin with 0");
    assert!(width.is_multiple_of(dim) && samples * width == segments * dim, "out of pool_rows");
    let ends = (offsets.first().copied(), offsets.last().map(|end| *end as usize));
    assert_eq!(ends, (Some(0), Some(index.len())), "offsets of pool_rows");
    assert!(offsets.is_sorted(), "offsets of pool_rows ascend");
    assert!(index.iter().all(|row| (*row as usize) < unique), "a key's row is not one of {unique}");
    let out = SharedRows::<f32>::new(&mut out);
    let slots = width / dim;
    let keys = index.len().div_ceil(segments.max(1)).max(1);
    ctx.for_rows(segments, keys * dim, &|segment| {
        let keys = &index[offsets[segment] as usize..offsets[segment + 1] as usize];
        let first = segment % slots * dim;
        // SAFETY: each segment is one task's.
        let out = unsafe { out.part_mut(segment / slots, first..first + dim) };
        ctx.simd.run(Pool { rows: args.rows, keys, factor: args.combiner.factor(keys.len()), out });
    });
}

struct Pool<'a> {
    rows: View<'a>,
    keys: &'a [i32],
    factor: f32,
    out: &'a mut [f32],
}

impl Kernel for Pool<'_> {
    fn reference(self) {
        let rows = self.keys.iter().map(|row| self.rows.row(*row as usize));
        reference::pool(rows, self.factor, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let Pool { rows, keys, factor, out } = self;
        if let [row] = keys {
            return out.copy_from_slice(rows.row(*row as usize));
        }
        for (i, out) in out.chunks_mut(L::COUNT).enumerate() {
            let columns = i * L::COUNT..i * L::COUNT + out.len();
            let mut sum = lanes.splat(0.0);
            for row in keys {
                sum = lanes.add(sum, lanes.read(&rows.row(*row as usize)[columns.clone()]));
            }
            lanes.write(lanes.mul(sum, lanes.splat(factor)), out);
        }
    }
}
