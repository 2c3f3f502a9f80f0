//! Launches `rope_commit.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};

use crate::attention::attend_args::AttendArgs;
use crate::attention::rope_commit::live_heads::LiveHeads;
use crate::cuda::{LayerPages, extent, kernel_params, load, page_variant};
use crate::error::Error;
use crate::pages::paged_kv::PagedKv;

pub(crate) struct RopeCommitKernel {
    kernel: CudaKernel,
}

/// Heads of a block, one to a warp.
const BLOCK_HEADS: usize = 8;

kernel_params! {
    /// Twin of `RopeCommitParams` in `rope_commit.cu`.
    struct RopeCommitParams: 136 bytes {
        layer: LayerPages,
        live: LiveHeads,
        commit_slots: u64,
        q: u64,
    }
}

impl RopeCommitKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, page: DType) -> Result<Self, Error> {
        let module = load(device, "rope_commit", page_variant(page))?;
        Ok(RopeCommitKernel { kernel: module.kernel("rope_commit")? })
    }

    /// Takes `args.qkv` apart; the queries go to `args.scratch`, keys and values to their slots.
    pub(crate) fn launch(&self, args: &AttendArgs<'_>, kv: &PagedKv<'_>) {
        let slots = kv.commit_slots.device_address();
        self.launch_to(args, kv, LayerPages::new(kv, args.layer), slots);
    }

    /// The same with keys and values in `live`, one token to a page.
    pub(crate) fn launch_beside(&self, args: &AttendArgs<'_>, kv: &PagedKv<'_>, live: LayerPages) {
        self.launch_to(args, kv, live, 0);
    }

    /// `commit_slots`: their address, or 0 where row `i` goes to slot `i`.
    fn launch_to(
        &self,
        args: &AttendArgs<'_>,
        kv: &PagedKv<'_>,
        layer: LayerPages,
        commit_slots: u64,
    ) {
        let (layout, [tokens, _]) = (kv.layout, args.qkv.dims());
        assert_eq!(kv.commit_slots.dims(), [tokens], "commit_slots");
        let params = RopeCommitParams {
            layer,
            live: LiveHeads::new(args, layout.kv_heads, layout.key_dim),
            commit_slots,
            q: args.scratch.device_address(),
        };
        let blocks = (args.heads + 2 * layout.kv_heads).div_ceil(BLOCK_HEADS);
        let launch = Launch {
            grid: [extent(tokens), extent(blocks), 1],
            block: 32 * BLOCK_HEADS as u32,
            shared_bytes: 0,
        };
        // SAFETY: the struct is the kernel's twin. The views are device memory of the shapes that
        // were checked here and by the caller; slots lie in the pages, which `PagedKv` promises,
        // and live rows have a page each.
        unsafe { self.kernel.launch(launch, &params) };
    }
}
