//! Launches `slot_store.cu`.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};

use super::scratch::ScratchColumns;
use crate::attention::attend_args::AttendArgs;
use crate::attention::rope_commit::live_heads::{Angles, LiveHeads};
use crate::cuda::{CodeBooks, LayerSlots, LiveRows, extent, kernel_params, load};
use crate::error::Error;
use crate::pages::slot_kv::SlotKv;

pub(super) struct StoreKernel {
    kernel: CudaKernel,
}

/// Heads of a block, one to a warp.
const BLOCK_HEADS: usize = 8;

kernel_params! {
    /// Twin of `SlotStoreParams` in `slot_store.cu`.
    struct SlotStoreParams: 248 bytes {
        layer: LayerSlots,
        live: LiveHeads,
        rows: LiveRows,
        rerotated: Angles,
        slots: u64,
        queries: u64,
        query_stride: u32,
        rotates_keys: u32,
    }
}

impl StoreKernel {
    pub(super) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "slot_store", "any")?;
        Ok(StoreKernel { kernel: module.kernel("slot_store")? })
    }

    /// Takes `args.qkv` apart; the queries go to `args.scratch`.
    pub(super) fn launch(&self, args: &AttendArgs<'_>, kv: &SlotKv<'_>, books: &CodeBooks) {
        let layout = kv.layout;
        let ([tokens, _], slots) = (args.qkv.dims(), kv.slots.as_view());
        assert_eq!(slots.dims(), [layout.layers, tokens, layout.kv_heads], "slots");
        let layer_slots = args.layer * tokens * layout.kv_heads * size_of::<i32>();
        let params = SlotStoreParams {
            layer: LayerSlots::new(kv, args.layer, books),
            live: LiveHeads::new(args, layout.kv_heads, layout.key_dim),
            rows: LiveRows::new(kv),
            rerotated: args
                .rerotated
                .map_or(Angles::NONE, |rerotated| Angles::new(rerotated.angles, tokens)),
            slots: slots.device_address() + layer_slots as u64,
            queries: args.scratch.device_address(),
            query_stride: extent(ScratchColumns::new(&layout, args.heads).all()),
            rotates_keys: u32::from(kv.read_rope.is_none()),
        };
        let blocks = (args.heads + layout.kv_heads).div_ceil(BLOCK_HEADS);
        let launch = Launch {
            grid: [extent(tokens), extent(blocks), 1],
            block: 32 * BLOCK_HEADS as u32,
            shared_bytes: 0,
        };
        // SAFETY: the struct is the kernel's twin. The views are device memory of the shapes just
        // checked and those checked by the caller; slots lie in the pages, as `choose_slots` gives
        // them.
        unsafe { self.kernel.launch(launch, &params) };
    }
}
