//! Attention over slots on an NVIDIA GPU.
//!
//! First `slot_store.cu` writes the live keys and values into the slots chosen for them, so that
//! all keys are found in pages. Then single rows go to `slot_decode.cu` and chunks to
//! `slot_chunk_mma.cu` (on Hopper `slot_chunk.cu`), both on tensor cores; what they do not take,
//! such as f32, goes to `slot_plain.cu`. All of them add to the scores.
//!
//! Protected keys that are re-rotated are seen with re-rotated queries; but of a chunk all queries
//! see them rotated alike, and there the keys are re-rotated.

mod chunk;
mod decode;
mod key_rope;
mod memory;
mod plain;
mod scratch;
mod slot_step;
mod store;

use std::sync::{Arc, Mutex, PoisonError};

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use crate::attention::attend_args::AttendArgs;
use crate::cuda::{CodeBooks, TypedKernel};
use crate::error::Error;
use crate::pages::choose_slots::cuda::ChooseSlotsParams;
use crate::pages::slot_kv::SlotKv;
use crate::pages::slot_layout::SlotLayout;
use chunk::Chunks;
use decode::DecodeKernels;
use memory::DecodeMemory;
use plain::{MAX_HEAD_DIM, PlainKernels};
pub(crate) use scratch::ScratchColumns;
use store::StoreKernel;

/// Those of a model's slots are loaded at start, if it has any; tests come with others.
pub(crate) struct SlotKernels {
    device: Arc<CudaDevice>,
    activation: DType,
    chunks: Chunks,
    loaded: Mutex<Loaded>,
}

#[derive(Default)]
struct Loaded {
    every: Option<Arc<EveryLayout>>,
    memory: Option<Arc<DecodeMemory>>,
    decode: Vec<Arc<DecodeKernels>>,
}

/// The kernels that take any layout.
struct EveryLayout {
    books: CodeBooks,
    choose: TypedKernel<ChooseSlotsParams>,
    store: StoreKernel,
    plain: PlainKernels,
}

/// What single rows of a layout go to, where they do not go to the plain kernel.
type Singles = Option<(Arc<DecodeKernels>, Arc<DecodeMemory>)>;

impl SlotKernels {
    pub(crate) fn new(device: &Arc<CudaDevice>, activation: DType, on_hopper: bool) -> Self {
        SlotKernels {
            device: Arc::clone(device),
            activation,
            chunks: Chunks::new(device, activation, on_hopper),
            loaded: Mutex::default(),
        }
    }

    /// Loads what slots of this layout need.
    pub(crate) fn prepare(&self, layout: &SlotLayout) -> Result<(), Error> {
        let SlotLayout { key_dim, value_dim, .. } = *layout;
        if key_dim != value_dim || MAX_HEAD_DIM < key_dim {
            return Err(Error::SlotHeadsOnGpu { key_dim, value_dim, most: MAX_HEAD_DIM });
        }
        self.every_layout()?;
        self.singles(layout)?;
        self.chunks.kernels(layout).map(drop)
    }

    pub(crate) fn choose_slots(&self, kv: &SlotKv<'_>) {
        let every = self.every_layout().expect(LOADED_BEFORE);
        every.choose.choose_slots(kv, &every.books);
    }

    pub(crate) fn attend(&self, args: &AttendArgs<'_>, kv: &SlotKv<'_>) {
        check(args, kv);
        let every = self.every_layout().expect(LOADED_BEFORE);
        every.store.launch(args, kv, &every.books);
        let ([tokens, _], layout) = (args.out.dims(), &kv.layout);
        // Tensor cores take heads that are rotated whole on read, or not at all.
        let [_, pairs] = args.angles.cos.dims();
        let (reads, rotates_whole) = (kv.read_rope.is_some(), 2 * pairs == layout.key_dim);
        let mut rest = 0..tokens;
        let singles = self
            .singles(layout)
            .expect(LOADED_BEFORE)
            .filter(|_| DecodeKernels::take_heads(layout, args.heads) && (!reads || rotates_whole));
        if let Some((decode, memory)) = singles {
            decode.launch(args, kv, &every.books, &memory);
            rest.start = kv.singles;
        }
        let rotates = reads || args.rerotated.is_some();
        let chunks = self.chunks.kernels(layout).expect(LOADED_BEFORE);
        if let Some(chunks) = chunks.filter(|_| !rotates || rotates_whole) {
            chunks.launch(args, kv, &every.books);
            rest.end = kv.singles;
        }
        if !rest.is_empty() {
            every.plain.launch(args, kv, &every.books, rest);
        }
    }

    fn every_layout(&self) -> Result<Arc<EveryLayout>, Error> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let device = &self.device;
        if loaded.every.is_none() {
            loaded.every = Some(Arc::new(EveryLayout {
                books: CodeBooks::place(device)?,
                choose: TypedKernel::load(device, "choose_slots", "any")?,
                store: StoreKernel::load(device)?,
                plain: PlainKernels::load(device)?,
            }));
        }
        Ok(Arc::clone(loaded.every.as_ref().expect("just loaded")))
    }

    fn singles(&self, layout: &SlotLayout) -> Result<Singles, Error> {
        if !DecodeKernels::exist_for(layout, self.activation) {
            return Ok(None);
        }
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.memory.is_none() {
            loaded.memory = Some(Arc::new(DecodeMemory::take(&self.device)?));
        }
        let memory = Arc::clone(loaded.memory.as_ref().expect("just taken"));
        if let Some(kernels) = loaded.decode.iter().find(|kernels| kernels.suit(layout)) {
            return Ok(Some((Arc::clone(kernels), memory)));
        }
        let kernels = Arc::new(DecodeKernels::load(&self.device, layout)?);
        loaded.decode.push(Arc::clone(&kernels));
        Ok(Some((kernels, memory)))
    }
}

const LOADED_BEFORE: &str = "slots that were not asked for at start suit";

fn check(args: &AttendArgs<'_>, kv: &SlotKv<'_>) {
    let layout = &kv.layout;
    let [key_dim, value_dim] = [layout.key_dim, layout.value_dim];
    assert!(key_dim == value_dim && key_dim <= MAX_HEAD_DIM, "heads of {key_dim} and {value_dim}");
    assert!(kv.scorers.is_empty(), "a GPU does not run a program's scores");
    if let Some(rope) = &kv.read_rope {
        rope.check(kv.seqs(), key_dim);
    }
    let scratch = ScratchColumns::new(layout, args.heads).wanted();
    args.check_on_cuda(layout.kv_heads, value_dim, scratch);
}
