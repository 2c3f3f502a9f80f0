//! Launches `plain.cu`.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};

use super::dense_step::DenseStep;
use crate::attention::attend_args::AttendArgs;
use crate::cuda::{LayerPages, extent, kernel_params, load, page_variant};
use crate::error::Error;
use crate::pages::page_layout::PageLayout;
use crate::pages::paged_kv::PagedKv;

pub(super) struct PlainKernel {
    kernel: CudaKernel,
}

/// Widths of heads that there are kernels for; each takes narrower ones too.
const WIDTHS: [usize; 3] = [64, 128, 256];
const BLOCK: u32 = 256;

kernel_params! {
    /// Twin of `PlainParams` in `plain.cu`.
    struct PlainParams: 152 bytes {
        step: DenseStep,
        live: LayerPages,
    }
}

impl PlainKernel {
    /// None for heads that are too wide.
    pub(super) fn load(
        device: &Arc<CudaDevice>,
        layout: &PageLayout,
    ) -> Result<Option<Self>, Error> {
        let Some(width) = WIDTHS.into_iter().find(|width| layout.key_dim <= *width) else {
            return Ok(None);
        };
        let module = load(device, "plain", page_variant(layout.dtype))?;
        let kernel = module.kernel(&format!("plain_attention_{width}"))?;
        Ok(Some(PlainKernel { kernel }))
    }

    /// All rows. `live`: the step's own keys and values, unless they are in their slots.
    pub(super) fn launch(&self, args: &AttendArgs<'_>, kv: &PagedKv<'_>, live: Option<LayerPages>) {
        let [tokens, _] = args.out.dims();
        let grid = [extent(args.heads), extent(tokens), 1];
        let launch = Launch { grid, block: BLOCK, shared_bytes: 0 };
        let step = DenseStep::new(args, kv, args.scale);
        let params = PlainParams { step, live: live.unwrap_or(LayerPages::NONE) };
        // SAFETY: the struct is the kernel's twin; shapes were checked by the caller and by
        // `rope_commit`, tables and pages are as `PagedKv` promises, and live rows were written by
        // a launch before.
        unsafe { self.kernel.launch(launch, &params) };
    }
}
