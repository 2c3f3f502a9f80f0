//! The kernels for one type of pages and width of heads, and which of them takes which rows.

use std::sync::{Arc, OnceLock};

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::chunk::ChunkKernel;
use super::decode::DecodeKernel;
use super::decode_splits::DecodeSplits;
use super::plain::PlainKernel;
use super::pure_scratch::PureScratch;
use crate::attention::attend_args::AttendArgs;
use crate::attention::rope_commit::cuda::RopeCommitKernel;
use crate::cuda::page_variant;
use crate::error::Error;
use crate::pages::page_layout::PageLayout;
use crate::pages::paged_kv::PagedKv;

pub(super) struct PageKernels {
    dtype: DType,
    head_dim: usize,
    rope_commit: RopeCommitKernel,
    route: Route,
    /// Of pure steps, where commit-first ones go to tensor cores; loaded for the first one.
    pure: OnceLock<PlainKernel>,
}

enum Route {
    TensorCores { decode: DecodeKernel, chunk: ChunkKernel },
    Plain(PlainKernel),
}

/// Widths of heads that tensor cores take.
const TENSOR_CORE_DIMS: [usize; 2] = [64, 128];

impl PageKernels {
    pub(super) fn load(
        device: &Arc<CudaDevice>,
        layout: &PageLayout,
        on_hopper: bool,
    ) -> Result<Self, Error> {
        let PageLayout { key_dim, value_dim, dtype, .. } = *layout;
        let refused = Error::HeadsOnGpu { key_dim, value_dim, dtype };
        // Scales behind the numbers of an fp8 page lie at multiples of 4 bytes.
        let is_aligned = layout.scale_bytes() == 0 || key_dim.is_multiple_of(4);
        if key_dim != value_dim || !is_aligned {
            return Err(refused);
        }
        let route = if dtype != DType::F32 && TENSOR_CORE_DIMS.contains(&key_dim) {
            let variant = format!("{}_{key_dim}", page_variant(dtype));
            let decode = DecodeKernel::load(device, &variant, layout)?;
            let chunk = ChunkKernel::load(device, &variant, layout, on_hopper)?;
            Route::TensorCores { decode, chunk }
        } else {
            Route::Plain(PlainKernel::load(device, layout)?.ok_or(refused)?)
        };
        let rope_commit = RopeCommitKernel::load(device, dtype)?;
        Ok(PageKernels { dtype, head_dim: key_dim, rope_commit, route, pure: OnceLock::new() })
    }

    pub(super) fn suit(&self, layout: &PageLayout) -> bool {
        let PageLayout { key_dim, value_dim, dtype, .. } = *layout;
        (dtype, key_dim, value_dim) == (self.dtype, self.head_dim, self.head_dim)
    }

    pub(super) fn attend(&self, args: &AttendArgs<'_>, kv: &PagedKv<'_>, splits: &DecodeSplits) {
        self.rope_commit.launch(args, kv);
        match &self.route {
            Route::TensorCores { decode, .. } if splits.is_deterministic() => {
                decode.all_rows(args, kv, splits);
            }
            Route::TensorCores { decode, chunk } => {
                decode.singles(args, kv, splits);
                chunk.launch(args, kv);
            }
            Route::Plain(plain) => plain.launch(args, kv, None),
        }
    }

    /// Past slots and live rows are read, then the live rows are written to their slots.
    pub(super) fn attend_pure(
        &self,
        device: &Arc<CudaDevice>,
        args: &AttendArgs<'_>,
        kv: &PagedKv<'_>,
    ) {
        let live = PureScratch::new(&kv.layout, args.heads).live_rows(args);
        self.rope_commit.launch_beside(args, kv, live);
        let plain = match &self.route {
            Route::Plain(plain) => plain,
            Route::TensorCores { .. } => self.pure.get_or_init(|| {
                let loaded = PlainKernel::load(device, &kv.layout).expect("PTX that is built in");
                loaded.expect("it takes all heads that tensor cores take")
            }),
        };
        plain.launch(args, kv, Some(live));
        self.rope_commit.launch(args, kv);
    }
}
