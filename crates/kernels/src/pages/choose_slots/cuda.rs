//! Launches `choose_slots.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};

use crate::cuda::{CodeBooks, LayerSlots, LiveRows, extent, load};
use crate::error::Error;
use crate::pages::slot_kv::SlotKv;

pub(crate) struct ChooseSlotsKernel {
    kernel: CudaKernel,
}

const BLOCK: u32 = 512;
/// Enough to fill a GPU twice: more of them, with a head each, would only be shorter.
const MANY_BLOCKS: usize = 512;

/// Twin of `ChooseSlotsParams` in `choose_slots.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ChooseSlotsParams {
    layer: LayerSlots,
    rows: LiveRows,
    slots: u64,
    layer_bytes: u64,
    tokens: u32,
}
const _: () = assert!(size_of::<ChooseSlotsParams>() == 152);

impl ChooseSlotsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "choose_slots", "any")?;
        Ok(ChooseSlotsKernel { kernel: module.kernel("choose_slots")? })
    }

    pub(crate) fn launch(&self, kv: &SlotKv<'_>, books: &CodeBooks) {
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
        let head_blocks =
            if is_joined || MANY_BLOCKS < layers * kv.seqs() { 1 } else { extent(kv_heads) };
        let grid = [extent(layers), extent(kv.seqs()), head_blocks];
        let launch = Launch { grid, block: BLOCK, shared_bytes: 0 };
        // SAFETY: the struct is the kernel's twin and the shapes were checked; that tables, rules
        // and live rows fit the pages is what `SlotKv` promises.
        unsafe { self.kernel.launch(launch, &params) };
    }
}
