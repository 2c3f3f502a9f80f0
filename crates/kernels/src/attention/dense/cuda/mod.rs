//! Attention on an NVIDIA GPU.
//!
//! First `rope_commit.cu` writes the live keys and values into their slots, so that all keys are
//! found in pages. Then single rows go to `decode.cu` and longer chunks to `chunk.cu` (on Hopper
//! `chunk_hopper.cu`), on tensor cores; f32 pages and heads of other widths go to `plain.cu`.
//!
//! Where results may not depend on the batch, every row goes to `decode.cu`, which cuts keys at
//! fixed positions then. `plain.cu` always does.

mod args;
mod chunk;
mod decode;
mod page_kernels;
mod plain;
mod split_memory;

use std::sync::{Arc, Mutex, PoisonError};

use terrace_device::ViewMut;
use terrace_device::cuda::CudaDevice;

use crate::attention::attend_args::{AttendArgs, AttendScratch};
use crate::cuda::query_dtype;
use crate::error::Error;
use crate::pages::paged_kv::PageLayout;
use page_kernels::PageKernels;
use split_memory::SplitMemory;

pub(crate) struct AttentionKernels {
    device: Arc<CudaDevice>,
    memory: SplitMemory,
    /// Those of a model's pages are loaded at start; tests come with other pages.
    loaded: Mutex<Vec<Arc<PageKernels>>>,
}

impl AttentionKernels {
    /// Loads the kernels for pages of these layouts, and takes the memory they work in.
    pub(crate) fn load(
        device: &Arc<CudaDevice>,
        layouts: &[PageLayout],
        deterministic: bool,
    ) -> Result<Self, Error> {
        let mut loaded: Vec<Arc<PageKernels>> = Vec::new();
        for layout in layouts {
            if !loaded.iter().any(|kernels| kernels.suit(layout)) {
                loaded.push(Arc::new(PageKernels::load(device, layout)?));
            }
        }
        Ok(AttentionKernels {
            device: Arc::clone(device),
            memory: SplitMemory::take(device, deterministic)?,
            loaded: Mutex::new(loaded),
        })
    }

    /// Room for one token's queries.
    pub(crate) fn scratch(layout: &PageLayout, heads: usize) -> AttendScratch {
        AttendScratch { dtype: query_dtype(layout.dtype), columns: heads * layout.key_dim }
    }

    pub(crate) fn attend(&self, args: &AttendArgs<'_, '_>) {
        let ([_, width], layout) = (args.out.dims(), &args.kv.layout);
        assert_eq!(width, args.heads * layout.value_dim, "out of attention");
        assert!(args.heads.is_multiple_of(layout.kv_heads), "{} query heads", args.heads);
        assert!(args.window != Some(0), "a window of 0 hides every key");
        assert_dense(&args.out);
        assert_dense(&args.scratch);
        self.kernels(layout).attend(args, &self.memory);
    }

    fn kernels(&self, layout: &PageLayout) -> Arc<PageKernels> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernels) = loaded.iter().find(|kernels| kernels.suit(layout)) {
            return Arc::clone(kernels);
        }
        let kernels = PageKernels::load(&self.device, layout);
        let kernels = Arc::new(kernels.expect("pages that were not asked for at start suit"));
        loaded.push(Arc::clone(&kernels));
        kernels
    }
}

fn assert_dense(view: &ViewMut<'_>) {
    let [_, width] = view.dims();
    assert_eq!(view.row_stride(), width, "rows of attention are strided");
}
