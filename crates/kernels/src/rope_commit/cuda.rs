//! Launches `rope_commit.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};

use crate::attend::AttendArgs;
use crate::cuda::{LayerPages, extent, load, page_variant, query_dtype};
use crate::error::Error;
use crate::linear::Vector;
use crate::ops::RopeStyle;

pub(crate) struct RopeCommitKernel {
    kernel: CudaKernel,
}

/// Heads of a block, one to a warp.
const BLOCK_HEADS: usize = 8;

/// Twin of `RopeCommitParams` in `rope_commit.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RopeCommitParams {
    layer: LayerPages,
    qkv: u64,
    cos: u64,
    sin: u64,
    /// 0 for none.
    q_norm: u64,
    k_norm: u64,
    commit_slots: u64,
    q: u64,
    heads: u32,
    head_dim: u32,
    rotary_dim: u32,
    row_stride: u32,
    q_column: u32,
    k_column: u32,
    v_column: u32,
    is_interleaved: u32,
    qkv_is_f32: u32,
    eps: f32,
}
const _: () = assert!(size_of::<RopeCommitParams>() == 136);

impl RopeCommitKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, page: DType) -> Result<Self, Error> {
        let module = load(device, "rope_commit", page_variant(page))?;
        Ok(RopeCommitKernel { kernel: module.kernel("rope_commit")? })
    }

    /// Takes `args.qkv` apart; the queries go to `args.scratch`.
    pub(crate) fn launch(&self, args: &AttendArgs<'_, '_>) {
        let [query, key, _] = args.widths();
        let (layout, [tokens, columns]) = (args.kv.layout, args.qkv.dims());
        let [angle_rows, pairs] = args.angles.cos.dims();
        assert_eq!(columns, args.widths().iter().sum::<usize>(), "columns of qkv");
        assert_eq!(args.scratch.dims(), [tokens, query], "scratch of attention");
        assert_eq!(args.kv.commit_slots.dims(), [tokens], "commit_slots");
        assert_eq!(args.angles.sin.dims(), [angle_rows, pairs], "sines of attention");
        assert_eq!(angle_rows, tokens, "angles of attention");
        assert_eq!(args.scratch.dtype(), query_dtype(layout.dtype), "type of queries");
        assert!(matches!(args.qkv.dtype(), DType::F32 | DType::Bf16), "type of qkv");
        let rotary_dim = 2 * pairs;
        assert!(
            rotary_dim <= layout.key_dim,
            "rotation of {rotary_dim} numbers in heads of {}",
            layout.key_dim
        );
        let norm = |norm: Option<&Vector>| norm.map_or(0, |norm| norm.view().device_address());
        let params = RopeCommitParams {
            layer: LayerPages::new(args.kv, args.layer),
            qkv: args.qkv.device_address(),
            cos: args.angles.cos.device_address(),
            sin: args.angles.sin.device_address(),
            q_norm: norm(args.query_norm),
            k_norm: norm(args.key_norm),
            commit_slots: args.kv.commit_slots.device_address(),
            q: args.scratch.device_address(),
            heads: extent(args.heads),
            head_dim: extent(layout.key_dim),
            rotary_dim: extent(rotary_dim),
            row_stride: extent(args.qkv.row_stride()),
            q_column: 0,
            k_column: extent(query),
            v_column: extent(query + key),
            is_interleaved: u32::from(args.rope_style == RopeStyle::Interleaved),
            qkv_is_f32: u32::from(args.qkv.dtype() == DType::F32),
            eps: args.norm_eps,
        };
        let blocks = (args.heads + 2 * layout.kv_heads).div_ceil(BLOCK_HEADS);
        let launch = Launch {
            grid: [extent(tokens), extent(blocks), 1],
            block: 32 * BLOCK_HEADS as u32,
            shared_bytes: 0,
        };
        // SAFETY: the struct is the kernel's twin. The views are device memory of the shapes just
        // checked; slots lie in the pages, which `PagedKv` promises.
        unsafe { self.kernel.launch(launch, &params) };
    }
}
