//! A chunk's keys and values into their slots, and back out.

use terrace_device::{SharedRows, View, ViewMut};

use super::args::{ChunkAt, KeptRows, RowGradients};
use crate::cpu::cpu_ctx::CpuCtx;

/// Writes the chunk's rows into their slots and keeps what was there.
///
/// slots: i32 `[seqs * kv_heads, tokens]`, different ones for the tokens of a head · rows: keys
/// and values of the tokens · of_slots: keys and values · positions: of the slots
pub(crate) fn place_rows(
    ctx: &CpuCtx,
    at: &ChunkAt,
    slots: View<'_>,
    rows: [View<'_>; 2],
    of_slots: [ViewMut<'_>; 2],
    positions: ViewMut<'_>,
    kept: KeptRows<'_>,
) {
    at.check();
    rows.into_iter().for_each(|rows| at.check_rows(rows, at.kv_heads, "rows"));
    assert_eq!(slots.dims(), [at.seqs * at.kv_heads, at.tokens], "slots of a chunk");
    let KeptRows { keys, values, positions: mut kept_positions } = kept;
    let mut positions = positions;
    for ((rows, mut of_slots), mut kept) in rows.into_iter().zip(of_slots).zip([keys, values]) {
        let (of_slots, kept) =
            (SharedRows::<f32>::new(&mut of_slots), SharedRows::<f32>::new(&mut kept));
        for_heads(ctx, at, &|row, [seq, head]| {
            // SAFETY: each head of each sequence is one task's.
            let (of_slots, kept) = unsafe { (of_slots.row_mut(row), kept.row_mut(row)) };
            let pairs = slots.row::<i32>(row).iter().zip(kept.chunks_exact_mut(at.dim));
            for (token, (slot, kept)) in pairs.enumerate() {
                let in_slot = &mut of_slots[*slot as usize * at.dim..][..at.dim];
                kept.copy_from_slice(in_slot);
                in_slot.copy_from_slice(&rows.row(at.row(seq, token))[at.columns(head)]);
            }
        });
    }
    for row in 0..at.seqs * at.kv_heads {
        let (positions, kept) = (positions.row_mut::<i32>(row), kept_positions.row_mut(row));
        for (token, slot) in slots.row::<i32>(row).iter().enumerate() {
            kept[token] = positions[*slot as usize];
            positions[*slot as usize] = (at.position + token) as i32;
        }
    }
}

/// Takes a chunk back: its rows' gradients come out of the slots, which begin again with none, and
/// the slots get back what they had.
pub(crate) fn take_back_rows(
    ctx: &CpuCtx,
    at: &ChunkAt,
    slots: View<'_>,
    kept: KeptRows<'_>,
    of_slots: [ViewMut<'_>; 2],
    positions: ViewMut<'_>,
    gradients: RowGradients<'_>,
) {
    at.check();
    assert_eq!(slots.dims(), [at.seqs * at.kv_heads, at.tokens], "slots of a chunk");
    let KeptRows { keys, values, positions: kept_positions } = kept;
    let RowGradients { slot_keys, slot_values, keys: d_keys, values: d_values } = gradients;
    let mut positions = positions;
    let kept = [keys.into_view(), values.into_view()];
    let gradients = [(slot_keys, d_keys), (slot_values, d_values)];
    for ((kept, mut of_slots), (mut d_slots, mut d_rows)) in
        kept.into_iter().zip(of_slots).zip(gradients)
    {
        let of_slots = SharedRows::<f32>::new(&mut of_slots);
        let (d_slots, d_rows) =
            (SharedRows::<f32>::new(&mut d_slots), SharedRows::<f32>::new(&mut d_rows));
        for_heads(ctx, at, &|row, [seq, head]| {
            // SAFETY: each head of each sequence is one task's.
            let (of_slots, d_slots) = unsafe { (of_slots.row_mut(row), d_slots.row_mut(row)) };
            let pairs = slots.row::<i32>(row).iter().zip(kept.row(row).chunks_exact(at.dim));
            for (token, (slot, kept)) in pairs.enumerate() {
                let slot = *slot as usize * at.dim..(*slot as usize + 1) * at.dim;
                // SAFETY: as above.
                let d_row = unsafe { d_rows.part_mut(at.row(seq, token), at.columns(head)) };
                d_row.copy_from_slice(&d_slots[slot.clone()]);
                d_slots[slot.clone()].fill(0.0);
                of_slots[slot].copy_from_slice(kept);
            }
        });
    }
    for row in 0..at.seqs * at.kv_heads {
        let (positions, kept) = (positions.row_mut::<i32>(row), kept_positions.as_view());
        for (slot, kept) in slots.row::<i32>(row).iter().zip(kept.row::<i32>(row)) {
            positions[*slot as usize] = *kept;
        }
    }
}

/// Calls `f` for each head of each sequence with its row among the slots.
fn for_heads(ctx: &CpuCtx, at: &ChunkAt, f: &(dyn Fn(usize, [usize; 2]) + Sync)) {
    ctx.for_rows(at.seqs * at.kv_heads, at.tokens * at.dim, &|row| {
        f(row, [row / at.kv_heads, row % at.kv_heads]);
    });
}
