//! Cosine and sine of each token's rotation, computed once a step for all layers.
//!
//! positions: i32 `[tokens]` · cos, sin: f32 `[tokens, rotary_dim / 2]`
//!
//! Roofline: one sine and cosine (about 40 ns) per pair and token; bound by arithmetic.

pub(crate) mod cuda;
pub(crate) mod reference;

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::vector::Vector;

/// Radians per position of each pair of a head.
#[derive(Clone, Copy)]
pub struct RopeFrequencies<'a> {
    /// f32 `[seqs, rotary_dim / 2]`
    pub inv_freqs: View<'a>,
    /// i32 `[tokens]`: which of them each row is rotated by; `None` where all are by the first.
    pub row_seqs: Option<View<'a>>,
}

impl<'a> RopeFrequencies<'a> {
    /// inv_freq: `[rotary_dim / 2]`
    pub fn of_all(inv_freq: &'a Vector) -> Self {
        let inv_freq = inv_freq.view();
        let [pairs] = inv_freq.dims();
        RopeFrequencies { inv_freqs: inv_freq.reshape([1, pairs]), row_seqs: None }
    }
}

/// A step's angles, computed into `cos` and `sin`.
pub struct RopeAnglesArgs<'a> {
    /// i32 `[tokens]`
    pub positions: View<'a>,
    pub frequencies: RopeFrequencies<'a>,
    /// Of both results.
    pub scale: f32,
    /// f32 `[tokens, rotary_dim / 2]`, dense, as `sin`.
    pub cos: ViewMut<'a>,
    pub sin: ViewMut<'a>,
}

impl RopeAnglesArgs<'_> {
    /// Tokens and pairs; panics unless every row of `cos` and `sin` has its frequencies.
    fn extents(&self) -> [usize; 2] {
        let ([tokens], [_, pairs]) = (self.positions.dims(), self.frequencies.inv_freqs.dims());
        assert_eq!(self.cos.dims(), [tokens, pairs], "cos of rope_angles");
        assert_eq!(self.sin.dims(), [tokens, pairs], "sin of rope_angles");
        if let Some(row_seqs) = self.frequencies.row_seqs {
            assert_eq!(row_seqs.dims(), [tokens], "row_seqs of rope_angles");
        }
        [tokens, pairs]
    }
}

/// A sine and cosine cost about as much as this many elements of an ordinary row op.
const ELEMENTS_PER_ANGLE: usize = 64;

pub(crate) fn rope_angles(ctx: &CpuCtx, args: RopeAnglesArgs<'_>) {
    let [tokens, pairs] = args.extents();
    let RopeAnglesArgs { positions, frequencies, scale, mut cos, mut sin } = args;
    let RopeFrequencies { inv_freqs, row_seqs } = frequencies;
    let positions = positions.as_slice::<i32>();
    let row_seqs = row_seqs.as_ref().map(|row_seqs| row_seqs.as_slice::<i32>());
    let (cos, sin) = (SharedRows::<f32>::new(&mut cos), SharedRows::<f32>::new(&mut sin));
    ctx.for_rows(tokens, pairs * ELEMENTS_PER_ANGLE, &|token| {
        // SAFETY: each row is one task's.
        let (cos, sin) = unsafe { (cos.row_mut(token), sin.row_mut(token)) };
        let seq = row_seqs.map_or(0, |row_seqs| row_seqs[token] as usize);
        reference::angles(positions[token], inv_freqs.row(seq), scale, cos, sin);
    });
}
