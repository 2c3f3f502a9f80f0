//! Rotary position embedding: pairs of elements of each head, rotated by the token's angles.
//!
//! x: f32 `[tokens, heads, dim]`, in place · cos, sin: f32 `[tokens, rotary_dim / 2]`; elements
//! from `rotary_dim` on are left alone.
//!
//! Roofline: 8 bytes and 3 flops per element; bound by cache bandwidth.

mod backward;
pub(crate) mod cuda;
pub(crate) mod reference;
mod rope_angles;
mod rope_style;

pub(crate) use backward::rope_gradient;
pub use rope_angles::RopeAngles;
pub use rope_style::RopeStyle;

use terrace_device::ViewMut;

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

pub(crate) fn rope(ctx: &CpuCtx, x: ViewMut<'_>, angles: RopeAngles<'_>, style: RopeStyle) {
    let [tokens, _, dim] = x.dims();
    let [cos_tokens, pairs] = angles.cos.dims();
    assert_eq!(cos_tokens, tokens, "cos of rope");
    assert_eq!(angles.sin.dims(), [tokens, pairs], "sin of rope");
    assert!(2 * pairs <= dim, "rotation of {} elements in heads of {dim}", 2 * pairs);
    ctx.write_rows(x, |token, heads| {
        let (cos, sin) = (angles.cos.row(token), angles.sin.row(token));
        ctx.simd.run(Rotation { heads, dim, cos, sin, style });
    });
}

/// All heads of one token.
struct Rotation<'a> {
    heads: &'a mut [f32],
    dim: usize,
    cos: &'a [f32],
    sin: &'a [f32],
    style: RopeStyle,
}

impl Kernel for Rotation<'_> {
    #[inline(always)]
    fn reference(self) {
        for head in self.heads.chunks_exact_mut(self.dim) {
            match self.style {
                RopeStyle::Halves => reference::rotate_halves(head, self.cos, self.sin),
                RopeStyle::Interleaved => reference::rotate_interleaved(head, self.cos, self.sin),
            }
        }
    }

    /// The compiler makes vectors of the plain text.
    #[inline(always)]
    fn simd<L: Lanes>(self, _: L) {
        self.reference();
    }
}
