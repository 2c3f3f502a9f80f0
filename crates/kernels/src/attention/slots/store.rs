//! Live keys and values stored in the slots chosen for them, with what policies want to know.
//!
//! key, value: f32 `[tokens, kv_heads, dim]`

use terrace_device::{SharedRows, View};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::pages::slot_kv::SlotKv;
use crate::pages::slot_pages::{Note, Side, SlotPages};

pub(super) fn store(
    ctx: &CpuCtx,
    key: View<'_>,
    value: View<'_>,
    kv: &mut SlotKv<'_>,
    layer: usize,
) {
    let layout = kv.layout;
    let [tokens, kv_heads, key_dim] = key.dims();
    let value_dim = layout.value_dim;
    assert_eq!([kv_heads, key_dim], [layout.kv_heads, layout.key_dim], "live keys");
    assert_eq!(value.dims(), [tokens, kv_heads, value_dim], "live values");
    // SAFETY: each task has one row, whose slots are no other row's.
    let pages = unsafe { SharedRows::<u8>::of_shared(&kv.pages) };
    let chosen = kv.slots.as_view();
    let starts = kv.live_starts.as_slice::<i32>();
    ctx.for_rows(tokens, kv_heads * (key_dim + value_dim), &|row| {
        let seq = starts.partition_point(|start| *start as usize <= row) - 1;
        let table = kv.block_tables.row::<i32>(seq);
        let slots = &chosen.row::<i32>(layer)[row * kv_heads..(row + 1) * kv_heads];
        let (keys, values) = (key.row::<f32>(row), value.row::<f32>(row));
        for (head, slot) in slots.iter().enumerate() {
            let slot = *slot as usize;
            // SAFETY: this row's slots alone are touched.
            let pages = unsafe { SlotPages::new(&pages, table, &layout, layer, head) };
            let key = &keys[head * key_dim..(head + 1) * key_dim];
            let value = &values[head * value_dim..(head + 1) * value_dim];
            ctx.simd.run(StoreSlot { pages: &pages, slot, key, value });
            if layout.notes.value_norms {
                pages.set_note(Note::ValueNorm, slot, norm(value.iter().copied()));
            }
            if layout.notes.errors {
                let lost =
                    lost(&pages, Side::Keys, slot, key) + lost(&pages, Side::Values, slot, value);
                pages.set_note(Note::Error, slot, lost);
            }
        }
    });
}

/// One slot's key and value. Formats are written as plain loops, which the compiler makes vectors
/// of where it knows the level's instructions.
struct StoreSlot<'a> {
    pages: &'a SlotPages<'a>,
    slot: usize,
    key: &'a [f32],
    value: &'a [f32],
}

impl Kernel for StoreSlot<'_> {
    #[inline(always)]
    fn reference(self) {
        self.pages.store(Side::Keys, self.slot, self.key);
        self.pages.store(Side::Values, self.slot, self.value);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, _: L) {
        self.reference();
    }
}

/// L2 norm of what storing a row has changed.
fn lost(pages: &SlotPages<'_>, side: Side, slot: usize, row: &[f32]) -> f32 {
    let mut stored = [0.0; CpuCtx::MAX_HEAD_DIM];
    let stored = &mut stored[..row.len()];
    pages.load(side, slot, stored);
    norm(row.iter().zip(stored).map(|(before, after)| before - *after))
}

fn norm(row: impl Iterator<Item = f32>) -> f32 {
    row.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt() as f32
}
