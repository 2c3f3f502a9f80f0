//! Launches `plain.cu`.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};

use super::row_seqs::row_seqs;
use crate::attention::attend_args::AttendArgs;
use crate::cuda::{LayerPages, extent, load, page_variant};
use crate::error::Error;
use crate::pages::paged_kv::{PageLayout, PagedKv};

pub(super) struct PlainKernel {
    kernel: CudaKernel,
}

/// Widths of heads that there are kernels for; each takes narrower ones too.
const WIDTHS: [usize; 3] = [64, 128, 256];
const BLOCK: u32 = 256;

/// Twin of `PlainParams` in `plain.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PlainParams {
    layer: LayerPages,
    q: u64,
    block_tables: u64,
    past_tokens: u64,
    row_seqs: u64,
    live_starts: u64,
    out: u64,
    table_stride: u32,
    group: u32,
    window: u32,
    head_dim: u32,
    out_is_f32: u32,
    scale: f32,
}
const _: () = assert!(size_of::<PlainParams>() == 112);

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

    /// All rows.
    pub(super) fn launch(&self, args: &AttendArgs<'_>, kv: &PagedKv<'_>) {
        let [tokens, _] = args.out.dims();
        let grid = [extent(args.heads), extent(tokens), 1];
        let launch = Launch { grid, block: BLOCK, shared_bytes: 0 };
        // SAFETY: the struct is the kernel's twin; shapes were checked by the caller and by
        // `rope_commit`, and tables and pages are as `PagedKv` promises.
        unsafe { self.kernel.launch(launch, &params(args, kv)) };
    }
}

fn params(args: &AttendArgs<'_>, kv: &PagedKv<'_>) -> PlainParams {
    PlainParams {
        layer: LayerPages::new(kv, args.layer),
        q: args.scratch.device_address(),
        block_tables: kv.block_tables.device_address(),
        past_tokens: kv.past_tokens.device_address(),
        row_seqs: row_seqs(kv),
        live_starts: kv.live_starts.device_address(),
        out: args.out.device_address(),
        table_stride: extent(kv.block_tables.row_stride()),
        group: args.group(kv.layout.kv_heads),
        window: args.window_or_zero(),
        head_dim: extent(kv.layout.key_dim),
        out_is_f32: args.out_is_f32(),
        scale: args.scale,
    }
}
