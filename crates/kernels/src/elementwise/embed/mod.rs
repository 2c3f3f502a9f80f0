//! Rows of an embedding table, picked by token id and unpacked to f32.
//!
//! ids: `[tokens]` · table: `[vocab, hidden]` · out: `[tokens, hidden]`
//!
//! Roofline: reads one packed row and writes `4 hidden` bytes per token; bound by memory latency.

mod backward;
pub(crate) mod cuda;
pub(crate) mod cuda_gradient;
pub(crate) mod reference;

pub(crate) use backward::embed_gradient;
use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::matrix::Matrix;
use crate::linear::unpack::Unpack;

pub(crate) fn embed(ctx: &CpuCtx, ids: View<'_>, table: &Matrix, out: ViewMut<'_>) {
    let [tokens] = ids.dims();
    assert_eq!(out.dims(), [tokens, table.columns()], "out of embed");
    let ids = ids.as_slice::<i32>();
    for &id in ids {
        let known = usize::try_from(id).is_ok_and(|id| id < table.rows());
        assert!(known, "token id {id} of {}", table.rows());
    }
    ctx.write_rows(out, |token, out| {
        let bytes = table.row(ids[token] as usize);
        ctx.simd.run(Unpack { format: table.format(), bytes, out });
    });
}
