//! Launches `choose_slots.cu`.

use terrace_device::DType;

use crate::cuda::{CodeBooks, LayerSlots, LiveRows, TypedKernel, extent, kernel_params};
use crate::pages::slot_kv::SlotKv;

const THREADS: usize = 512;
/// Enough to fill a GPU twice: more of them, with a head each, would only be shorter.
const MANY_BLOCKS: usize = 512;

kernel_params! {
    /// Twin of `ChooseSlotsParams` in `choose_slots.cu`.
    pub(crate) struct ChooseSlotsParams: 152 bytes {
        layer: LayerSlots,
        rows: LiveRows,
        slots: u64,
        layer_bytes: u64,
        tokens: u32,
    }
}

impl TypedKernel<ChooseSlotsParams> {
    pub(crate) fn choose_slots(&self, kv: &SlotKv<'_>, books: &CodeBooks) {
        let [layers, tokens, kv_heads] = kv.slots.dims();
        assert_eq!([layers, kv_heads], [kv.layout.layers, kv.layout.kv_heads], "slots");
        assert!(kv.slots.dtype() == DType::I32, "type of slots");
        let dense_bytes = layers * tokens * kv_heads * size_of::<i32>();
        assert_eq!(kv.slots.as_view().dense_bytes(), dense_bytes, "slots are strided");
        let params = ChooseSlotsParams {
            layer: LayerSlots::new(kv, 0, books),
            rows: LiveRows::new(kv),
            slots: kv.slots.device_address(),
            layer_bytes: (kv.layout.page_bytes() / layers) as u64,
            tokens: extent(tokens),
        };
        // Where errors may be joined with scores, a block needs all heads.
        let is_joined = kv.layout.notes.errors;
        let head_blocks = if is_joined || MANY_BLOCKS < layers * kv.seqs() { 1 } else { kv_heads };
        // SAFETY: the shapes were checked; that tables, rules and live rows fit the pages is what
        // `SlotKv` promises.
        unsafe { self.launch([layers, kv.seqs(), head_blocks], THREADS, &params) };
    }
}
