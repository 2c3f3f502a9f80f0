//! What a block of logits tells of each row, and what becomes of it.

use std::ops::Range;

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

/// What is known of a row after some blocks: its largest logit, the sum of the exponentials of all
/// relative to it, and the logit of its target.
pub(super) struct Found;

impl Found {
    pub(super) const NUMBERS: usize = 3;
    const LARGEST: usize = 0;
    const TOTAL: usize = 1;
    const TARGET: usize = 2;

    pub(super) fn clear(mut found: ViewMut<'_>) {
        let [rows, _] = found.dims();
        (0..rows).for_each(|row| found.row_mut(row).copy_from_slice(&[f32::MIN, 0.0, 0.0]));
    }

    pub(super) fn losses(found: View<'_>, targets: &[i32], mut losses: ViewMut<'_>) {
        for (row, loss) in losses.as_mut_slice::<f32>().iter_mut().enumerate() {
            let found = found.row::<f32>(row);
            let log_total = Self::log_total(found);
            *loss = if targets[row] < 0 { 0.0 } else { log_total - found[Self::TARGET] };
        }
    }

    fn log_total(found: &[f32]) -> f32 {
        (f64::from(found[Self::LARGEST]) + f64::from(found[Self::TOTAL]).ln()) as f32
    }
}

/// Takes a block into what was found; rows without a target are passed over.
pub(super) fn note_block(
    ctx: &CpuCtx,
    logits: View<'_>,
    ids: &Range<usize>,
    targets: &[i32],
    mut found: ViewMut<'_>,
) {
    let [rows, width] = logits.dims();
    let found = SharedRows::<f32>::new(&mut found);
    ctx.for_rows(rows, width, &|row| {
        let Ok(target) = usize::try_from(targets[row]) else { return };
        // SAFETY: each row is one task's.
        let found = unsafe { found.row_mut(row) };
        let logits = logits.row::<f32>(row);
        if ids.contains(&target) {
            found[Found::TARGET] = logits[target - ids.start];
        }
        ctx.simd.run(Note { logits, found });
    });
}

/// Makes a block of logits their gradient, in place.
pub(super) fn to_gradient(
    ctx: &CpuCtx,
    mut logits: ViewMut<'_>,
    ids: &Range<usize>,
    targets: &[i32],
    found: View<'_>,
    factors: &[f32],
) {
    let [rows, width] = logits.dims();
    let logits = SharedRows::<f32>::new(&mut logits);
    ctx.for_rows(rows, width, &|row| {
        // SAFETY: each row is one task's.
        let logits = unsafe { logits.row_mut(row) };
        let Ok(target) = usize::try_from(targets[row]) else { return logits.fill(0.0) };
        let factor = factors[row];
        ctx.simd.run(Share { logits, log_total: Found::log_total(found.row(row)), factor });
        if ids.contains(&target) {
            logits[target - ids.start] -= factor;
        }
    });
}

struct Note<'a> {
    logits: &'a [f32],
    found: &'a mut [f32],
}

impl Note<'_> {
    /// Joins the block's own largest logit and total with those before.
    fn join(&mut self, largest: f32, total: f32) {
        let (before, sum) = (self.found[Found::LARGEST], self.found[Found::TOTAL]);
        let most = before.max(largest);
        self.found[Found::TOTAL] = sum * (before - most).exp() + total * (largest - most).exp();
        self.found[Found::LARGEST] = most;
    }
}

impl Kernel for Note<'_> {
    fn reference(mut self) {
        let largest = self.logits.iter().copied().fold(f32::MIN, f32::max);
        let powers = self.logits.iter().map(|x| (f64::from(*x) - f64::from(largest)).exp());
        let total = powers.sum::<f64>() as f32;
        self.join(largest, total);
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let largest = self.logits.iter().copied().fold(f32::MIN, f32::max);
        let shift = lanes.splat(largest);
        let whole = self.logits.chunks_exact(L::COUNT);
        let rest = whole.remainder();
        let mut total = lanes.splat(0.0);
        for logits in whole {
            total = lanes.add(total, lanes.exp(lanes.sub(lanes.read(logits), shift)));
        }
        let rest: f32 = rest.iter().map(|x| (x - largest).exp()).sum();
        let total = lanes.sum(total) + rest;
        self.join(largest, total);
    }
}

struct Share<'a> {
    logits: &'a mut [f32],
    log_total: f32,
    factor: f32,
}

impl Kernel for Share<'_> {
    fn reference(self) {
        for logit in self.logits {
            let share = (f64::from(*logit) - f64::from(self.log_total)).exp();
            *logit = (f64::from(self.factor) * share) as f32;
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let (shift, factor) = (lanes.splat(self.log_total), lanes.splat(self.factor));
        for logits in self.logits.chunks_mut(L::COUNT) {
            let share = lanes.exp(lanes.sub(lanes.read(logits), shift));
            lanes.write(lanes.mul(share, factor), logits);
        }
    }
}
