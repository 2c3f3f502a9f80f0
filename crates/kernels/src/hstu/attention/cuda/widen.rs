//! Launches `hstu_widen.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::page_side::{LayerSides, PageSide};
use crate::cuda::{TypedKernel, extent, kernel_params, page_variant};
use crate::error::Error;
use crate::hstu::attention::attend_args::HstuKv;

pub(super) struct WidenKernels {
    e4m3: TypedKernel<HstuWidenParams>,
    e5m2: TypedKernel<HstuWidenParams>,
    int8: TypedKernel<HstuWidenParams>,
}

kernel_params! {
    /// Twin of `HstuWidenParams` in `hstu_widen.cu`.
    struct HstuWidenParams: 168 bytes {
        keys: PageSide,
        values: PageSide,
        wide_keys: PageSide,
        wide_values: PageSide,
        block_tables: u64,
        past_tokens: u64,
        history_rows: u64,
        wide_tables: u64,
        table_pages: u32,
        heads: u32,
    }
}

const THREADS: usize = 128;

impl WidenKernels {
    pub(super) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let load = |page| TypedKernel::load(device, "hstu_widen", page_variant(page));
        let (e4m3, e5m2) = (load(DType::F8E4m3)?, load(DType::F8E5m2)?);
        Ok(WidenKernels { e4m3, e5m2, int8: load(DType::I8)? })
    }

    /// What the layer's pages hold of the histories goes to `wide`, with `tables` of that.
    pub(super) fn launch(&self, kv: &HstuKv<'_>, kept: LayerSides, wide: LayerSides, tables: u64) {
        let ([seqs, table_pages], heads) = (kv.block_tables.dims(), kv.layout.kv_heads);
        let kernel = match kv.layout.dtype {
            DType::F8E4m3 => &self.e4m3,
            DType::F8E5m2 => &self.e5m2,
            DType::I8 => &self.int8,
            other => panic!("pages of {} are not widened", other.name()),
        };
        let params = HstuWidenParams {
            keys: kept.keys,
            values: kept.values,
            wide_keys: wide.keys,
            wide_values: wide.values,
            block_tables: kv.block_tables.device_address(),
            past_tokens: kv.past_tokens.device_address(),
            history_rows: kv.history_rows.device_address(),
            wide_tables: tables,
            table_pages: extent(table_pages),
            heads: extent(heads),
        };
        // SAFETY: the wide pages and tables lie in scratch that was checked to be large enough;
        // tables are as `HstuKv` promises.
        unsafe { kernel.launch([table_pages, seqs, 2 * heads], THREADS, &params) };
    }
}
