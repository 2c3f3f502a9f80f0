//! Attention over slots on an NVIDIA GPU.
//!
//! First `slot_store.cu` writes the live keys and values into the slots chosen for them, so that
//! all keys are found in pages. Then `slot_plain.cu` attends, in every format and for every width
//! of heads up to 256, and adds to the scores.

mod plain;
mod scratch;
mod store;

use std::sync::{Arc, Mutex, PoisonError};

use terrace_device::cuda::CudaDevice;

use crate::choose_slots::cuda::ChooseSlotsKernel;
use crate::cuda::CodeBooks;
use crate::error::Error;
use crate::slot_attention::AttendSlotsArgs;
use crate::slot_kv::SlotKv;
use crate::slot_layout::SlotLayout;
use plain::{MAX_HEAD_DIM, PlainKernels};
pub(crate) use scratch::ScratchColumns;
use store::StoreKernel;

/// Those of a model's slots are loaded at start, if it has any; tests come with others.
pub(crate) struct SlotKernels {
    device: Arc<CudaDevice>,
    loaded: Mutex<Option<Arc<Loaded>>>,
}

struct Loaded {
    books: CodeBooks,
    choose: ChooseSlotsKernel,
    store: StoreKernel,
    plain: PlainKernels,
}

impl SlotKernels {
    pub(crate) fn new(device: &Arc<CudaDevice>) -> Self {
        SlotKernels { device: Arc::clone(device), loaded: Mutex::new(None) }
    }

    /// Loads what slots of this layout need.
    pub(crate) fn prepare(&self, layout: &SlotLayout) -> Result<(), Error> {
        let SlotLayout { key_dim, value_dim, .. } = *layout;
        if key_dim != value_dim || MAX_HEAD_DIM < key_dim {
            return Err(Error::SlotHeadsOnGpu { key_dim, value_dim, most: MAX_HEAD_DIM });
        }
        self.load().map(drop)
    }

    pub(crate) fn choose_slots(&self, kv: &SlotKv<'_>) {
        let loaded = self.loaded();
        loaded.choose.launch(kv, &loaded.books);
    }

    pub(crate) fn attend(&self, args: &AttendSlotsArgs<'_, '_>) {
        check(args);
        let loaded = self.loaded();
        loaded.store.launch(args, &loaded.books);
        loaded.plain.launch(args, &loaded.books, 0, 0);
    }

    fn loaded(&self) -> Arc<Loaded> {
        self.load().expect("slots that were not asked for at start suit")
    }

    fn load(&self) -> Result<Arc<Loaded>, Error> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = &*loaded {
            return Ok(Arc::clone(loaded));
        }
        let device = &self.device;
        let kernels = Arc::new(Loaded {
            books: CodeBooks::place(device)?,
            choose: ChooseSlotsKernel::load(device)?,
            store: StoreKernel::load(device)?,
            plain: PlainKernels::load(device)?,
        });
        *loaded = Some(Arc::clone(&kernels));
        Ok(kernels)
    }
}

fn check(args: &AttendSlotsArgs<'_, '_>) {
    let (layout, [tokens, width]) = (&args.kv.layout, args.out.dims());
    let [key_dim, value_dim] = [layout.key_dim, layout.value_dim];
    assert!(key_dim == value_dim && key_dim <= MAX_HEAD_DIM, "heads of {key_dim} and {value_dim}");
    assert!(args.heads.is_multiple_of(layout.kv_heads), "{} query heads", args.heads);
    assert!(args.window != Some(0), "a window of 0 hides every key");
    assert_eq!(width, args.heads * value_dim, "out of attention");
    let scratch = ScratchColumns::new(layout, args.heads).wanted();
    assert_eq!(args.scratch.dims(), [tokens, scratch.columns], "scratch of attention");
    assert_eq!(args.scratch.dtype(), scratch.dtype, "type of scratch");
    for view in [&args.out, &args.scratch] {
        let [_, width] = view.dims();
        assert_eq!(view.row_stride(), width, "rows of attention are strided");
    }
}
