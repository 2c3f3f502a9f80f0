//! The gradient of a rotation, in place: of what came out it becomes that of what went in.

use terrace_device::ViewMut;

use super::{RopeAngles, RopeStyle, reference};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

/// gradient: f32 `[tokens, heads, dim]` · angles: as of the rotation
pub(crate) fn rope_gradient(
    ctx: &CpuCtx,
    gradient: ViewMut<'_>,
    angles: RopeAngles<'_>,
    style: RopeStyle,
) {
    let [tokens, _, dim] = gradient.dims();
    let [cos_tokens, pairs] = angles.cos.dims();
    assert_eq!(cos_tokens, tokens, "cos of rope_gradient");
    assert_eq!(angles.sin.dims(), [tokens, pairs], "sin of rope_gradient");
    assert!(2 * pairs <= dim, "rotation of {} elements in heads of {dim}", 2 * pairs);
    ctx.write_rows(gradient, |token, heads| {
        let (cos, sin) = (angles.cos.row(token), angles.sin.row(token));
        ctx.simd.run(Token { heads, dim, cos, sin, style });
    });
}

/// All heads of one token.
struct Token<'a> {
    heads: &'a mut [f32],
    dim: usize,
    cos: &'a [f32],
    sin: &'a [f32],
    style: RopeStyle,
}

impl Kernel for Token<'_> {
    #[inline(always)]
    fn reference(self) {
        for head in self.heads.chunks_exact_mut(self.dim) {
            match self.style {
                RopeStyle::Halves => reference::unrotate_halves(head, self.cos, self.sin),
                RopeStyle::Interleaved => {
                    reference::unrotate_interleaved(head, self.cos, self.sin);
                }
            }
        }
    }

    /// The compiler makes vectors of the plain text.
    #[inline(always)]
    fn simd<L: Lanes>(self, _: L) {
        self.reference();
    }
}
