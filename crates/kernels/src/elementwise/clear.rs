//! `x = 0`, on all threads: memory of a pool holds what was there before.

use terrace_device::{SharedRows, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;

/// Numbers of a task.
const PART: usize = 1 << 16;

pub(crate) fn clear(ctx: &CpuCtx, x: ViewMut<'_>) {
    let (whole, rest) = x.into_slice::<f32>().as_chunks_mut::<PART>();
    rest.fill(0.0);
    if whole.is_empty() {
        return;
    }
    let parts = whole.len();
    let mut whole = ViewMut::of(whole.as_flattened_mut(), [parts, PART]);
    let whole = SharedRows::<f32>::new(&mut whole);
    // SAFETY: each part is one task's.
    ctx.pool.run(parts, &|_, part| unsafe { whole.row_mut(part) }.fill(0.0));
}
