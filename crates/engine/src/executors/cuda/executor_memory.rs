//! All device memory of an executor, and the launches of a step over it.

use std::ops::Range;
use std::sync::Arc;

use terrace_cache::{KvBuffer, PageId};
use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device, View, Workspace};
use terrace_kernels::sampling::{SampleKernel, SampleRow};
use terrace_kernels::{
    CHUNK_TILE_TOKENS, GroupKv, HostCopier, KvLayout, MappedBuffer, Ops, RowKinds, SlotRule,
};
use terrace_model::{Decoder, DecoderSpec, LayeredKv, StepCtx, TokenRows, WorkspaceShape};

use super::captured_kind::CapturedKind;
use super::cuda_executor_shape::CudaExecutorShape;
use super::step_arrays::{Staging, StepArrays};
use super::step_form::{Array, StepForm};
use super::step_views::{StepViews, span_of};
use crate::error::Error;
use crate::executors::batch::Batch;
use crate::executors::step_bounds::{any_slots, slot_array_bytes, slots_bytes};

/// Left for recorded graphs and the driver's own needs.
const RESERVE_BYTES: usize = 512 << 20;

pub(super) struct ExecutorMemory {
    device: Arc<CudaDevice>,
    ops: Ops,
    sampler: SampleKernel,
    copier: HostCopier,
    decoder: Decoder,
    kv: KvBuffer,
    scratch: Workspace,
    /// act `[step tokens, hidden]`: the wanted rows.
    hidden: Buffer,
    /// f32 `[scored rows, vocab]`
    logits: Buffer,
    /// i32 `[scored rows]`: the ids sampled last.
    sampled: Buffer,
    /// i32 `[pages, 2]`: pages to copy.
    copies: Buffer,
    arrays: Arrays,
    step_tokens: usize,
    scored_rows: usize,
    scratch_bytes: usize,
}

impl ExecutorMemory {
    pub fn new(
        ops: Ops,
        decoder: Decoder,
        kinds: &[CapturedKind],
        shape: &CudaExecutorShape,
    ) -> Result<Self, Error> {
        let Device::Cuda(device) = ops.device() else { panic!("not the ops of a GPU") };
        let sampler = SampleKernel::load(&device, decoder.spec().vocab)?;
        let copier = HostCopier::load(&device)?;
        let on = Device::Cuda(Arc::clone(&device));
        let seqs = shape.max_seqs;
        let tokens = shape.max_step_tokens.max(seqs);
        let spec = decoder.spec();
        let layouts: Vec<KvLayout> = kinds
            .iter()
            .flat_map(|kind| kind.groups.iter().map(|group| group.layout))
            .chain(any_slots(spec))
            .collect();
        // Each sequence may have a cache of its own kind, in layers of as many lengths.
        let groups = seqs * spec.layers.len();
        let workspace = WorkspaceShape { tokens, groups, layouts: &layouts };
        let workspace =
            decoder.workspace_bytes(&ops, workspace) + slots_bytes(spec, tokens, groups);
        let act = ops.activation();
        let placed_bytes = device.taken_bytes();
        let scratch = Workspace::new(&on, workspace)?;
        let hidden = on.take(tokens * spec.hidden * act.bytes(), "last hidden states")?;
        let logits = on.take(4 * seqs * spec.vocab, "logits")?;
        let sampled = on.take(4 * seqs, "sampled ids")?;
        let copies = on.take(8 * shape.pages, "page copies")?;
        let recorded =
            kinds.iter().map(|kind| StepForm::decoding(kind, seqs).bytes()).max().unwrap_or(0);
        let decoding = StepArrays::new(&on, recorded)?;
        let mixed = StepArrays::new(&on, mixed_bytes(spec, tokens, shape))?;
        let scratch_bytes = device.taken_bytes() - placed_bytes;
        let pages = affordable_pages(shape, device.left_bytes()?, [placed_bytes, scratch_bytes])?;
        let kv = KvBuffer::new(&on, shape.page_bytes, pages)?;
        Ok(ExecutorMemory {
            device,
            ops,
            sampler,
            copier,
            decoder,
            kv,
            scratch,
            hidden,
            logits,
            sampled,
            copies,
            arrays: Arrays { decoding, mixed },
            step_tokens: tokens,
            scored_rows: seqs,
            scratch_bytes,
        })
    }

    pub fn device(&self) -> Arc<CudaDevice> {
        Arc::clone(&self.device)
    }

    pub fn ops(&self) -> &Ops {
        &self.ops
    }

    pub fn pages(&self) -> usize {
        self.kv.pages()
    }

    pub fn kv_bytes(&self) -> usize {
        self.kv.bytes()
    }

    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    pub fn vocab(&self) -> usize {
        self.decoder.spec().vocab
    }

    /// Rows scored against the vocabulary at a time.
    pub fn scored_rows(&self) -> usize {
        self.scored_rows
    }

    pub fn copies_bytes(&self) -> usize {
        self.copies.len()
    }

    /// Copies what steps need of the host, and give it.
    pub fn copier(&self) -> &HostCopier {
        &self.copier
    }

    pub fn staging(&self, device: &Arc<CudaDevice>) -> Result<Staging, Error> {
        Staging::new(
            &self.copier,
            device,
            self.arrays.mixed.bytes().max(self.arrays.decoding.bytes()),
        )
    }

    pub fn arrays_mut(&mut self, set: ArraySet) -> &mut StepArrays {
        match set {
            ArraySet::Decoding => &mut self.arrays.decoding,
            ArraySet::Mixed => &mut self.arrays.mixed,
        }
    }

    /// f32 `[vocab]`: the scores of one row.
    pub fn logits(&self, row: usize) -> View<'_> {
        let vocab = self.vocab();
        self.logits.view(DType::F32, [self.scored_rows, vocab]).rows(row..row + 1)
    }

    /// i32 `[count]`: the ids sampled last.
    pub fn sampled(&self, count: usize) -> View<'_> {
        self.sampled.view(DType::I32, [count])
    }

    /// Copies `count` pairs of pages, whose numbers are in `pairs`.
    pub fn copy_pages(&mut self, pairs: &MappedBuffer, count: usize) {
        let mut on_device = self.copies.view_mut(DType::I32, [count, 2]);
        pairs.copy_to(&on_device.reborrow());
        self.ops.copy_pages(self.kv.pages_mut(), on_device.as_view());
    }

    /// The bytes of some pages, one after the other. Waits for the device.
    pub fn read_pages(&mut self, pages: &[PageId]) -> Result<Vec<u8>, Error> {
        let page_bytes = self.kv.page_bytes();
        let mut bytes = vec![0; pages.len() * page_bytes];
        for (page, bytes) in pages.iter().zip(bytes.chunks_exact_mut(page_bytes)) {
            let all = self.kv.pages_mut();
            let row = all.as_view().rows(page.index()..page.index() + 1);
            self.device.read(row, bytes)?;
        }
        Ok(bytes)
    }

    /// Where the pages are, for who copies them to the store or back.
    pub fn kv_mut(&mut self) -> &mut KvBuffer {
        &mut self.kv
    }

    /// Bytes of the slots of a step's rows, in all layers.
    pub fn slots_bytes(&self) -> usize {
        slot_array_bytes(self.decoder.spec(), self.step_tokens)
    }

    /// Starts copying the slots that the last step of this shape has chosen, one segment and group
    /// after the other.
    pub fn fetch_slots(&mut self, set: ArraySet, form: &StepForm, to: &mut MappedBuffer) {
        self.scratch.reset();
        let arrays = self.arrays.get(set);
        let views = StepViews { form, arrays, scratch: &self.scratch };
        let mut offset = 0;
        for group in views.segments().iter().flat_map(|segment| &segment.groups) {
            if let GroupKv::Slots(kv) = group {
                let slots = kv.slots.as_view();
                let bytes = slots.dense_bytes();
                to.copy_from(offset, slots);
                offset += bytes;
            }
        }
    }

    /// Panics unless the step is sound; see [`PagedKv::check`].
    pub fn check(&mut self, batch: &Batch) {
        for segment in batch.segments() {
            segment.check(self.kv.pages_mut());
        }
    }

    /// Launches a whole decoding step over its arrays.
    pub fn decode(&mut self, form: &StepForm) {
        self.forward(ArraySet::Decoding, form, None);
        self.score(0..form.wanted);
        self.sample(ArraySet::Decoding, form, 0..form.sampled);
    }

    /// Scores some of the wanted rows.
    pub fn score(&mut self, wanted: Range<usize>) {
        let (rows, vocab) = (wanted.len(), self.vocab());
        let ctx = StepCtx { ops: &self.ops, scratch: &self.scratch };
        let hidden = [self.step_tokens, self.decoder.spec().hidden];
        let hidden = self.hidden.view(self.ops.activation(), hidden).rows(wanted);
        self.decoder.score(ctx, hidden, self.logits.view_mut(DType::F32, [rows, vocab]));
    }

    /// Samples from the scores, as rows `rows` of the step's sampling say.
    pub fn sample(&mut self, set: ArraySet, form: &StepForm, rows: Range<usize>) {
        let arrays = self.arrays.get(set);
        let all = self.scored_rows;
        let how = arrays.sampling(span_of(form, Array::SampleRows)).rows(rows.clone());
        let logits = self.logits.view(DType::F32, [all, self.decoder.spec().vocab]);
        self.sampler.sample(logits, how, self.sampled.view_mut(DType::I32, [all]).rows(rows));
    }

    /// Launches the layers of a step; `before_layer` is called before a layer's pages are used.
    pub fn forward(
        &mut self,
        set: ArraySet,
        form: &StepForm,
        before_layer: Option<&dyn Fn(usize)>,
    ) {
        self.scratch.reset();
        let arrays = self.arrays.get(set);
        let views = StepViews { form, arrays, scratch: &self.scratch };
        let mut segments = views.segments();
        let input = TokenRows {
            ids: views.view(Array::Ids),
            sampled: Some(self.sampled.view(DType::I32, [self.scored_rows])),
            positions: views.view(Array::Positions),
            // A GPU computes all rows alike.
            row_kinds: RowKinds::Generated,
            wanted: views.view(Array::Wanted),
        };
        let ctx = StepCtx { ops: &self.ops, scratch: &self.scratch };
        let pages = self.kv.pages_mut();
        let layered = LayeredKv { pages, segments: &mut segments, before_layer };
        let hidden = [form.wanted, self.decoder.spec().hidden];
        let out = self.hidden.view_mut(self.ops.activation(), hidden);
        self.decoder.forward(ctx, input, layered, out);
    }
}

/// The arrays of steps that are recorded, and of all others.
struct Arrays {
    decoding: StepArrays,
    mixed: StepArrays,
}

impl Arrays {
    fn get(&self, set: ArraySet) -> &StepArrays {
        match set {
            ArraySet::Decoding => &self.decoding,
            ArraySet::Mixed => &self.mixed,
        }
    }
}

/// Which arrays a step's launches read.
#[derive(Clone, Copy)]
pub(super) enum ArraySet {
    Decoding,
    Mixed,
}

/// A bound of the arrays of any step that is not recorded: every sequence may have a kind of its
/// own and as many groups as layers.
fn mixed_bytes(spec: &DecoderSpec, tokens: usize, shape: &CudaExecutorShape) -> usize {
    let (seqs, layers) = (shape.max_seqs, spec.layers.len());
    let rows = tokens * (5 + layers);
    let pairs = spec.ropes[0].inv_freq.len();
    let of_seqs = seqs * (SampleRow::BYTES / 4 + 5 + pairs + layers * SlotRule::WORDS);
    let tiles = 2 * (tokens.div_ceil(CHUNK_TILE_TOKENS) + seqs);
    let arrays = 4 + seqs * (6 + 3 * layers);
    4 * (rows + of_seqs + tiles + seqs * shape.seq_pages) + 128 * arrays
}

/// The pages that fit into what is left of the device, once weights and scratch are taken.
fn affordable_pages(
    shape: &CudaExecutorShape,
    left_bytes: usize,
    [placed_bytes, scratch_bytes]: [usize; 2],
) -> Result<usize, Error> {
    let CudaExecutorShape { pages, least_pages, page_bytes, arena_bytes, .. } = *shape;
    let kept_bytes = RESERVE_BYTES + arena_bytes;
    let fitting = left_bytes.saturating_sub(kept_bytes) / page_bytes;
    if fitting < least_pages {
        return Err(Error::DeviceMemoryTooSmall {
            left_bytes,
            placed_bytes,
            scratch_bytes,
            kept_bytes,
            least_pages,
            page_bytes,
        });
    }
    Ok(fitting.min(pages))
}
