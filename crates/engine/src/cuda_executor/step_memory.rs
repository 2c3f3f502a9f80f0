//! All device memory of an executor, and the launches of a step over it.

use std::ops::Range;
use std::sync::Arc;

use terrace_cache::{KvBuffer, KvGroup};
use terrace_device::cuda::{CudaDevice, PinnedBuffer};
use terrace_device::{Buffer, DType, Device, View, ViewMut, Workspace};
use terrace_kernels::sample::SampleRow;
use terrace_kernels::{CHUNK_TILE_TOKENS, Ops, PagedKv, RowOrigins};
use terrace_model::{Decoder, LayerHome, LayeredKv, StepCtx, TokenRows};

use super::CudaExecutorShape;
use super::step_arrays::{Array, ArraysShape, Staging, StepArrays};
use crate::batch::Batch;
use crate::error::Error;

/// How much of the device's memory there is to take.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBudget {
    /// Bytes of the device that may be in use when all is taken.
    pub allowed_bytes: usize,
    /// Bytes of weights, which are in place already; for the message when the rest is too little.
    pub weight_bytes: usize,
}

/// Left for recorded graphs and the driver's own needs.
const RESERVE_BYTES: usize = 512 << 20;

pub(super) struct StepMemory {
    device: Arc<CudaDevice>,
    ops: Ops,
    decoder: Decoder,
    group: KvGroup,
    homes: Vec<LayerHome>,
    kv: KvBuffer,
    scratch: Workspace,
    /// act `[step tokens, hidden]`: the wanted rows.
    hidden: Buffer,
    /// f32 `[scored rows, vocab]`
    logits: Buffer,
    /// i32 `[scored rows]`: the ids sampled last.
    sampled: Buffer,
    /// i32 `[seqs, 2]`: pages to copy.
    copies: Buffer,
    /// i32 `[seqs, pages of the longest sequence]`
    tables: Buffer,
    decoding: StepArrays,
    mixed: StepArrays,
    shape: ArraysShape,
    scratch_bytes: usize,
}

impl StepMemory {
    pub fn new(
        ops: Ops,
        decoder: Decoder,
        group: KvGroup,
        shape: CudaExecutorShape,
    ) -> Result<Self, Error> {
        assert_eq!(group.layers.len(), decoder.spec().layers.len(), "one group has all layers");
        let Device::Cuda(device) = ops.device() else { panic!("not the ops of a GPU") };
        if let Ops::Cuda(cuda) = &ops {
            cuda.check_vocab(decoder.spec().vocab)?;
        }
        let on = Device::Cuda(Arc::clone(&device));
        let (tokens, seqs) = (shape.max_step_tokens, shape.max_seqs);
        let arrays = ArraysShape {
            tokens: tokens.max(seqs),
            seqs,
            seq_pages: group.pages_for(shape.max_seq_tokens),
            tiles: tokens.div_ceil(CHUNK_TILE_TOKENS) + seqs,
        };
        let spec = decoder.spec();
        let workspace = decoder.workspace_bytes(&ops, tokens.max(seqs), &group.layout);
        let act = ops.activation();
        let free_before = device.memory_bytes()?.0;
        let scratch = Workspace::new(&on, workspace)?;
        let hidden = on.take(arrays.tokens * spec.hidden * act.bytes(), "last hidden states")?;
        let logits = on.take(4 * seqs * spec.vocab, "logits")?;
        let sampled = on.take(4 * seqs, "sampled ids")?;
        let copies = on.take(8 * seqs, "page copies")?;
        let tables = on.take(4 * seqs * arrays.seq_pages, "block tables")?;
        let decoding = StepArrays::new(&on, ArraysShape { tokens: seqs, tiles: 0, ..arrays })?;
        let mixed = StepArrays::new(&on, arrays)?;
        let (free, total) = device.memory_bytes()?;
        let scratch_bytes = free_before - free;
        let pages = affordable_pages(&group, shape, total - free, scratch_bytes)?;
        let kv = KvBuffer::new(&on, group.layout, pages)?;
        let homes = (0..group.layers.len()).map(|layer| LayerHome { group: 0, layer }).collect();
        Ok(StepMemory {
            device,
            ops,
            decoder,
            group,
            homes,
            kv,
            scratch,
            hidden,
            logits,
            sampled,
            copies,
            tables,
            decoding,
            mixed,
            shape: arrays,
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
        self.kv.pages() * self.group.layout.page_bytes()
    }

    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    pub fn vocab(&self) -> usize {
        self.decoder.spec().vocab
    }

    /// Rows scored against the vocabulary at a time.
    pub fn scored_rows(&self) -> usize {
        self.shape.seqs
    }

    pub fn copies_bytes(&self) -> usize {
        self.copies.len()
    }

    pub fn staging(&self, device: &Arc<CudaDevice>) -> Result<Staging, Error> {
        Staging::new(device, self.mixed.bytes().max(self.decoding.bytes()), self.shape)
    }

    pub fn decoding_arrays(&mut self) -> &mut StepArrays {
        &mut self.decoding
    }

    pub fn mixed_arrays(&mut self) -> &mut StepArrays {
        &mut self.mixed
    }

    pub fn block_tables_mut(&mut self) -> ViewMut<'_> {
        self.tables.view_mut(DType::I32, [self.shape.seqs, self.shape.seq_pages])
    }

    /// f32 `[vocab]`: the scores of one row.
    pub fn logits(&self, row: usize) -> View<'_> {
        let vocab = self.vocab();
        self.logits.view(DType::F32, [self.shape.seqs, vocab]).rows(row..row + 1)
    }

    /// i32 `[count]`: the ids sampled last.
    pub fn sampled(&self, count: usize) -> View<'_> {
        self.sampled.view(DType::I32, [count])
    }

    /// Copies `count` pairs of pages, whose numbers are in `pairs`.
    pub fn copy_pages(&mut self, pairs: &PinnedBuffer, count: usize) {
        let mut on_device = self.copies.view_mut(DType::I32, [count, 2]);
        pairs.copy_to(0, &on_device.reborrow());
        self.ops.copy_pages(self.kv.pages_mut(), on_device.as_view());
    }

    /// Panics unless the step is sound; see [`PagedKv::check`].
    pub fn check(&mut self, batch: &Batch) {
        batch.paged_kv(0, self.group.layout, self.kv.pages_mut()).check();
    }

    /// Makes a decoding step of `size` empty rows, for the first run of its kernels.
    pub fn clear_decoding(&mut self, size: usize, staging: &mut Staging) -> Result<(), Error> {
        let home = &mut self.decoding;
        let mut fill = |array, number: i32| staging.write(home, array, &[], size, |_| number);
        for array in [Array::Ids, Array::Positions, Array::RowSeqs, Array::Wanted] {
            fill(array, 0);
        }
        fill(Array::CommitSlots, -1);
        fill(Array::PastTokens, -1);
        staging.write(home, Array::LiveStarts, &[], size + 1, |row| row as i32);
        let empty = SampleRow::SKIP.to_bytes().repeat(size);
        staging.write_sampling(home, &empty);
        staging.send(home);
        Ok(self.device.synchronize()?)
    }

    /// Launches a whole decoding step over its arrays: one row for each of `seqs` sequences.
    pub fn decode(&mut self, seqs: usize) {
        self.run_layers(Rows {
            home: Home::Decoding,
            tokens: seqs,
            seqs,
            singles: seqs,
            tiles: 0,
            wanted: seqs,
        });
        self.score(0..seqs);
        self.sample_rows(Home::Decoding, 0..seqs);
    }

    /// Launches the layers of a step with longer chunks.
    pub fn forward(&mut self, batch: &Batch) {
        self.run_layers(Rows {
            home: Home::Mixed,
            tokens: batch.ids().len(),
            seqs: batch.past_tokens().len(),
            singles: batch.singles(),
            tiles: batch.tiles().len() / 2,
            wanted: batch.wanted().len(),
        });
    }

    /// Scores some of the wanted rows.
    pub fn score(&mut self, wanted: Range<usize>) {
        let (rows, vocab) = (wanted.len(), self.vocab());
        let ctx = StepCtx { ops: &self.ops, scratch: &self.scratch };
        let hidden = [self.shape.tokens, self.decoder.spec().hidden];
        let hidden = self.hidden.view(self.ops.activation(), hidden).rows(wanted);
        self.decoder.score(ctx, hidden, self.logits.view_mut(DType::F32, [rows, vocab]));
    }

    /// Samples from the scores, as rows `rows` of the step's sampling say.
    pub fn sample(&mut self, rows: Range<usize>) {
        self.sample_rows(Home::Mixed, rows);
    }

    fn sample_rows(&mut self, home: Home, rows: Range<usize>) {
        let Ops::Cuda(ops) = &self.ops else { unreachable!("checked when made") };
        let arrays = match home {
            Home::Decoding => &self.decoding,
            Home::Mixed => &self.mixed,
        };
        let all = self.shape.seqs;
        let how = arrays.sampling(all).rows(rows.clone());
        let logits = self.logits.view(DType::F32, [all, self.decoder.spec().vocab]);
        ops.sample(logits, how, self.sampled.view_mut(DType::I32, [all]).rows(rows));
    }

    fn run_layers(&mut self, rows: Rows) {
        self.scratch.reset();
        let arrays = match rows.home {
            Home::Decoding => &self.decoding,
            Home::Mixed => &self.mixed,
        };
        let Rows { tokens, seqs, wanted, .. } = rows;
        let tables = self.tables.view(DType::I32, [self.shape.seqs, self.shape.seq_pages]);
        let mut kv = [PagedKv {
            layout: self.group.layout,
            pages: self.kv.pages_mut(),
            block_tables: tables.first(seqs),
            past_tokens: arrays.view(Array::PastTokens, seqs),
            live_starts: arrays.view(Array::LiveStarts, seqs + 1),
            commit_slots: arrays.view(Array::CommitSlots, tokens),
            singles: rows.singles,
            chunk_tiles: arrays.view(Array::Tiles, 2 * rows.tiles).reshape([rows.tiles, 2]),
            row_seqs: arrays.view(Array::RowSeqs, tokens),
        }];
        let input = TokenRows {
            ids: arrays.view(Array::Ids, tokens),
            sampled: Some(self.sampled.view(DType::I32, [self.shape.seqs])),
            positions: arrays.view(Array::Positions, tokens),
            // A GPU computes all rows alike.
            origins: RowOrigins::Generated,
            wanted: arrays.view(Array::Wanted, wanted),
        };
        let ctx = StepCtx { ops: &self.ops, scratch: &self.scratch };
        let mut layered = LayeredKv { groups: &mut kv, homes: &self.homes };
        let hidden = [wanted, self.decoder.spec().hidden];
        let out = self.hidden.view_mut(self.ops.activation(), hidden);
        self.decoder.forward(ctx, input, &mut layered, out);
    }
}

/// Which arrays a step's launches read.
#[derive(Clone, Copy)]
enum Home {
    Decoding,
    Mixed,
}

/// The extents of one step.
struct Rows {
    home: Home,
    tokens: usize,
    seqs: usize,
    /// Leading sequences of one row each.
    singles: usize,
    tiles: usize,
    wanted: usize,
}

/// Pages that still fit when `used` bytes of the device are taken.
fn affordable_pages(
    group: &KvGroup,
    shape: CudaExecutorShape,
    used: usize,
    scratch_bytes: usize,
) -> Result<usize, Error> {
    let page_bytes = group.layout.page_bytes();
    let MemoryBudget { allowed_bytes, weight_bytes } = shape.budget;
    let left = allowed_bytes.saturating_sub(used + RESERVE_BYTES);
    match (left / page_bytes).min(shape.pages) {
        0 => Err(Error::DeviceMemoryTooSmall {
            allowed_bytes,
            used_bytes: used,
            weight_bytes,
            scratch_bytes,
            reserve_bytes: RESERVE_BYTES,
            page_bytes,
        }),
        pages => Ok(pages),
    }
}
