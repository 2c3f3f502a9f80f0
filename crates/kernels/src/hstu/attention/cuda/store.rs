//! Launches `hstu_store.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::page_side::{LayerSides, PageSide, page_kind};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;
use crate::hstu::attention::attend_args::{HstuAttendArgs, HstuKv};

pub(super) struct StoreKernel {
    kernel: TypedKernel<HstuStoreParams>,
}

kernel_params! {
    /// Twin of `HstuStoreParams` in `hstu_store.cu`.
    struct HstuStoreParams: 200 bytes {
        k: u64,
        v: u64,
        slots: u64,
        row_seqs: u64,
        keys: PageSide,
        values: PageSide,
        live_keys: PageSide,
        live_values: PageSide,
        tokens: u32,
        k_stride: u32,
        v_stride: u32,
        heads: u32,
        lanes: u32,
        page_kind: u32,
        activates: u32,
        widens_live: u32,
        by_eight: u32,
        unused: u32,
    }
}

const THREADS: usize = 256;
/// Numbers that a thread has of a row.
const RUN: usize = 8;

impl StoreKernel {
    pub(super) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        Ok(StoreKernel { kernel: TypedKernel::load(device, "hstu_store", activation.name())? })
    }

    /// `widens_live`: the pages of candidates are bf16, those of the history fp8.
    pub(super) fn launch(
        &self,
        args: &HstuAttendArgs<'_>,
        kv: &HstuKv<'_>,
        kept: LayerSides,
        live: LayerSides,
        widens_live: bool,
    ) {
        let ([tokens, _], heads) = (args.k.dims(), kv.layout.kv_heads);
        let widest = kv.layout.key_dim.max(kv.layout.value_dim);
        let (addresses, bytes) =
            (args.k.device_address() | args.v.device_address(), args.k.dtype().bytes());
        let strides = ((args.k.row_stride() | args.v.row_stride()) * bytes) as u64;
        let are_aligned = (addresses | strides).is_multiple_of(16);
        let by_eight = are_aligned && kept.are_aligned() && live.are_aligned();
        assert!(by_eight || !widens_live, "rows that are widened lie on 16 bytes");
        let lanes = if by_eight { widest.div_ceil(RUN).next_power_of_two() } else { 32 };
        let params = HstuStoreParams {
            k: args.k.device_address(),
            v: args.v.device_address(),
            slots: kv.commit_slots.device_address(),
            row_seqs: kv.row_seqs.device_address(),
            keys: kept.keys,
            values: kept.values,
            live_keys: live.keys,
            live_values: live.values,
            tokens: extent(tokens),
            k_stride: extent(args.k.row_stride()),
            v_stride: extent(args.v.row_stride()),
            heads: extent(heads),
            lanes: extent(lanes),
            page_kind: page_kind(kv.layout.dtype),
            activates: u32::from(args.activates),
            widens_live: u32::from(widens_live),
            by_eight: u32::from(by_eight),
            unused: 0,
        };
        let grid = [(tokens * heads * lanes).div_ceil(THREADS), 1, 1];
        // SAFETY: shapes were checked by the caller; slots are as `HstuKv` promises.
        unsafe { self.kernel.launch(grid, THREADS, &params) };
    }
}
