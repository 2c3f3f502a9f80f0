//! What every kernel that attends over slots knows of a step: the twin of `slot_step.cuh`.

use super::key_rope::KeyRope;
use super::scratch::ScratchColumns;
use crate::attention::attend_args::AttendArgs;
use crate::cuda::{CodeBooks, LayerSlots, LiveRows, extent, kernel_params};
use crate::pages::slot_kv::SlotKv;

kernel_params! {
    pub(super) struct SlotStep: 200 bytes {
        layer: LayerSlots,
        rows: LiveRows,
        rope: KeyRope,
        queries: u64,
        out: u64,
        query_stride: u32,
        stats_column: u32,
        group: u32,
        window: u32,
        has_rerotated: u32,
        out_type: u32,
        first_row: u32,
        scale: f32,
    }
}

impl SlotStep {
    /// `scale`: the softmax's, as the kernel takes it.
    pub(super) fn new(
        args: &AttendArgs<'_>,
        kv: &SlotKv<'_>,
        books: &CodeBooks,
        rope: KeyRope,
        scale: f32,
    ) -> Self {
        let columns = ScratchColumns::new(&kv.layout, args.heads);
        SlotStep {
            layer: LayerSlots::new(kv, args.layer, books),
            rows: LiveRows::new(kv),
            rope,
            queries: args.scratch.device_address(),
            out: args.out.device_address(),
            query_stride: extent(columns.all()),
            stats_column: extent(columns.stats()),
            group: args.group(kv.layout.kv_heads),
            window: args.window_or_zero(),
            has_rerotated: u32::from(args.rerotated.is_some()),
            out_type: args.out_type(),
            first_row: 0,
            scale,
        }
    }

    /// The same for a grid that begins at a row.
    pub(super) fn starting_at(self, row: usize) -> Self {
        SlotStep { first_row: extent(row), ..self }
    }
}
