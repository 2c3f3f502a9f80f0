//! What rows read as once a format has stored them.

use terrace_device::{View, ViewMut};

use super::quantiser::Quantiser;
use crate::cpu::cpu_ctx::CpuCtx;

/// x, out: f32 `[rows, blocks * dim]`; each block of `dim` numbers is stored by itself.
pub(crate) fn round_rows(
    ctx: &CpuCtx,
    x: View<'_>,
    dim: usize,
    quantiser: Quantiser,
    out: ViewMut<'_>,
) {
    assert_eq!(x.shape(), out.shape(), "out of round_rows");
    ctx.write_rows::<f32>(out, |row, out| {
        out.copy_from_slice(x.row(row));
        out.chunks_exact_mut(dim).for_each(|block| {
            quantiser.pass(block);
        });
    });
}
