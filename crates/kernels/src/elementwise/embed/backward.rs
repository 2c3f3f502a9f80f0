//! The gradient of looked-up rows, which is added to the table's.
//!
//! A task is a strip of columns and goes through all tokens in order: a row that is looked up
//! twice belongs to one task, and its sum does not depend on threads.

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;

/// Columns of a task.
const STRIP: usize = 256;

/// ids: i32 `[tokens]` · d_out: f32 `[tokens, hidden]` · d_table: f32 `[vocab, hidden]`
pub(crate) fn embed_gradient(
    ctx: &CpuCtx,
    ids: View<'_>,
    d_out: View<'_>,
    mut d_table: ViewMut<'_>,
) {
    let ([tokens], [vocab, hidden]) = (ids.dims(), d_table.dims());
    assert_eq!(d_out.dims(), [tokens, hidden], "d_out of embed_gradient");
    let ids = ids.as_slice::<i32>();
    for &id in ids {
        let known = usize::try_from(id).is_ok_and(|id| id < vocab);
        assert!(known, "token id {id} of {vocab}");
    }
    let d_table = SharedRows::<f32>::new(&mut d_table);
    ctx.pool.run(hidden.div_ceil(STRIP), &|_, strip| {
        let columns = strip * STRIP..hidden.min((strip + 1) * STRIP);
        for (token, id) in ids.iter().enumerate() {
            // SAFETY: each strip is one task's.
            let sums = unsafe { d_table.part_mut(*id as usize, columns.clone()) };
            let d_out = &d_out.row::<f32>(token)[columns.clone()];
            sums.iter_mut().zip(d_out).for_each(|(sum, d)| *sum += d);
        }
    });
}
