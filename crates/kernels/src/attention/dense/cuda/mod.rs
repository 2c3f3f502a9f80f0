//! Attention on an NVIDIA GPU.
//!
//! First `rope_commit.cu` writes the live keys and values into their slots, so that all keys are
//! found in pages. Then single rows go to `decode.cu` and longer chunks to `chunk.cu` (on Hopper
//! `chunk_hopper.cu`), on tensor cores; f32 pages and heads of other widths go to `plain.cu`.
//!
//! Where results may not depend on the batch, every row goes to `decode.cu`, which cuts keys at
//! fixed positions then. `plain.cu` always does.
//!
//! That is an optimisation of the pure step, which writes nothing before all is read: `plain.cu`
//! takes past keys from pages and the step's own from memory beside them, and `rope_commit.cu`
//! commits afterwards. Conformance holds the one to the other.

mod chunk;
mod decode;
mod decode_splits;
mod dense_step;
mod page_kernels;
mod plain;
mod pure_scratch;

use std::sync::{Arc, Mutex, PoisonError};

use terrace_device::cuda::CudaDevice;

use crate::attention::attend_args::{AttendArgs, AttendScratch};
use crate::cuda::query_dtype;
use crate::error::Error;
use crate::pages::page_layout::PageLayout;
use crate::pages::paged_kv::PagedKv;
use decode_splits::DecodeSplits;
use page_kernels::PageKernels;
pub(crate) use pure_scratch::PureScratch;

pub(crate) struct AttentionKernels {
    device: Arc<CudaDevice>,
    on_hopper: bool,
    splits: DecodeSplits,
    /// Those of a model's pages are loaded at start; tests come with other pages.
    loaded: Mutex<Vec<Arc<PageKernels>>>,
}

impl AttentionKernels {
    /// Loads the kernels for pages of these layouts, and takes the memory they work in.
    pub(crate) fn load(
        device: &Arc<CudaDevice>,
        layouts: &[PageLayout],
        deterministic: bool,
        on_hopper: bool,
    ) -> Result<Self, Error> {
        let mut loaded: Vec<Arc<PageKernels>> = Vec::new();
        for layout in layouts {
            if !loaded.iter().any(|kernels| kernels.suit(layout)) {
                loaded.push(Arc::new(PageKernels::load(device, layout, on_hopper)?));
            }
        }
        Ok(AttentionKernels {
            device: Arc::clone(device),
            on_hopper,
            splits: DecodeSplits::take(device, deterministic)?,
            loaded: Mutex::new(loaded),
        })
    }

    /// Room for one token's queries.
    pub(crate) fn scratch(layout: &PageLayout, heads: usize) -> AttendScratch {
        AttendScratch { dtype: query_dtype(layout.dtype), columns: heads * layout.key_dim }
    }

    pub(crate) fn attend(&self, args: &AttendArgs<'_>, kv: &PagedKv<'_>) {
        check(args, kv, Self::scratch(&kv.layout, args.heads));
        self.kernels(&kv.layout).attend(args, kv, &self.splits);
    }

    pub(crate) fn attend_pure(&self, args: &AttendArgs<'_>, kv: &PagedKv<'_>) {
        check(args, kv, PureScratch::new(&kv.layout, args.heads).wanted());
        self.kernels(&kv.layout).attend_pure(&self.device, args, kv);
    }

    fn kernels(&self, layout: &PageLayout) -> Arc<PageKernels> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernels) = loaded.iter().find(|kernels| kernels.suit(layout)) {
            return Arc::clone(kernels);
        }
        let kernels = PageKernels::load(&self.device, layout, self.on_hopper);
        let kernels = Arc::new(kernels.expect("pages that were not asked for at start suit"));
        loaded.push(Arc::clone(&kernels));
        kernels
    }
}

fn check(args: &AttendArgs<'_>, kv: &PagedKv<'_>, scratch: AttendScratch) {
    assert!(args.rerotated.is_none(), "keys of dense caches keep their rotation");
    args.check_on_cuda(kv.layout.kv_heads, kv.layout.value_dim, scratch);
}
