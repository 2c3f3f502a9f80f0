//! Slots filled from the rows of the tokens that they hold.

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;

/// rows: f32 `[seqs * tokens, kv_heads * dim]` · positions: i32 `[seqs * kv_heads, slots]`,
/// negative for none · out: f32 `[seqs * kv_heads, slots, dim]`, zeros where there is none
pub(crate) fn gather_slots(
    ctx: &CpuCtx,
    rows: View<'_>,
    positions: View<'_>,
    mut out: ViewMut<'_>,
) {
    let [of_heads, slots, dim] = out.dims();
    let [token_rows, columns] = rows.dims();
    assert_eq!(positions.dims(), [of_heads, slots], "positions of gather_slots");
    assert!(dim > 0 && columns.is_multiple_of(dim), "{columns} columns of heads of {dim}");
    let kv_heads = columns / dim;
    assert!(of_heads.is_multiple_of(kv_heads), "{of_heads} rows of {kv_heads} heads");
    let seqs = (of_heads / kv_heads).max(1);
    assert!(token_rows.is_multiple_of(seqs), "{token_rows} rows of {seqs} sequences");
    let tokens = token_rows / seqs;
    let out = SharedRows::<f32>::new(&mut out);
    ctx.for_rows(of_heads, slots * dim, &|row| {
        let (seq, head) = (row / kv_heads, row % kv_heads);
        // SAFETY: each head of each sequence is one task's.
        let out = unsafe { out.row_mut(row) };
        let positions = positions.row::<i32>(row);
        for (position, out) in positions.iter().zip(out.chunks_exact_mut(dim)) {
            match usize::try_from(*position) {
                Ok(position) => {
                    assert!(position < tokens, "position {position} of {tokens} tokens");
                    let token = rows.row::<f32>(seq * tokens + position);
                    out.copy_from_slice(&token[head * dim..][..dim]);
                }
                Err(_) => out.fill(0.0),
            }
        }
    });
}
