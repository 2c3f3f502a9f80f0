//! Keys that lie in their slots as the model makes them, rotated for their positions on the way
//! into attention.

use super::block::BlockPositions;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::Lanes;
use crate::elementwise::rope::RopeStyle;
use crate::elementwise::rope::reference::{rotate_halves, rotate_interleaved};
use crate::elementwise::rope_angles::reference::angles;

/// How the keys of one sequence are rotated.
#[derive(Clone, Copy)]
pub(super) struct KeyRotation<'a> {
    /// Radians per position of each pair.
    pub(super) inv_freq: &'a [f32],
    pub(super) style: RopeStyle,
}

const MAX_PAIRS: usize = CpuCtx::MAX_HEAD_DIM / 2;

impl KeyRotation<'_> {
    pub(super) fn rotate_one(&self, key: &mut [f32], position: i32) {
        let [mut cos, mut sin] = [[0.0; MAX_PAIRS]; 2];
        let (cos, sin) = (&mut cos[..self.inv_freq.len()], &mut sin[..self.inv_freq.len()]);
        angles(position, self.inv_freq, 1.0, cos, sin);
        self.apply(key, cos, sin);
    }

    /// The keys of a block's first slots · keys: `[slots, dim]`
    #[inline(always)]
    pub(super) fn rotate<L: Lanes>(
        &self,
        lanes: L,
        keys: &mut [f32],
        dim: usize,
        positions: &BlockPositions,
    ) {
        let [mut cos, mut sin] = [[0.0; MAX_PAIRS]; 2];
        let (cos, sin) = (&mut cos[..self.inv_freq.len()], &mut sin[..self.inv_freq.len()]);
        for (key, since) in keys.chunks_exact_mut(dim).zip(positions.since) {
            let position = lanes.splat((positions.first_query + since as i32) as f32);
            let frequencies = self.inv_freq.chunks(L::COUNT);
            let out = cos.chunks_mut(L::COUNT).zip(sin.chunks_mut(L::COUNT));
            for (inv_freq, (cos, sin)) in frequencies.zip(out) {
                let [sines, cosines] = lanes.sin_cos(lanes.mul(position, lanes.read(inv_freq)));
                lanes.write(cosines, cos);
                lanes.write(sines, sin);
            }
            self.apply(key, cos, sin);
        }
    }

    #[inline(always)]
    fn apply(&self, key: &mut [f32], cos: &[f32], sin: &[f32]) {
        match self.style {
            RopeStyle::Halves => rotate_halves(key, cos, sin),
            RopeStyle::Interleaved => rotate_interleaved(key, cos, sin),
        }
    }
}
