//! Runs a plan on the device: the only place where the cache and the model meet.
//!
//! The device is the host's own processor. So a step is over when `start` returns, and the next
//! one cannot begin before it.

use terrace_cache::policy::Placement;
use terrace_cache::{KvBuffer, KvGroup, MoveId, PageId};
use terrace_device::{DType, View, Workspace};
use terrace_kernels::{GroupKv, KvLayout, Ops};
use terrace_model::{Decoder, KvSegment, LayeredKv, StepCtx, WorkspaceShape};
use terrace_tiers::{PageStore, Wait};

use crate::error::Error;
use crate::executors::batch::{Batch, ReportedChunk, RowPurpose, RowUse};
use crate::executors::row_reader::{Row, RowReader};
use crate::executors::step_bounds::{any_slots, slots_bytes};
use crate::generate::executor::{Executor, StepOutput};
use crate::generate::replay;
use crate::generate::sampling_params::SamplingParams;
use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_id::SeqId;
use crate::generate::sequence::Sequences;
use crate::generate::step_plan::StepPlan;

pub struct CpuExecutor {
    ops: Ops,
    decoder: Decoder,
    kv: KvBuffer,
    batch: Batch,
    store: PageStore,
    /// Page copies of a step, flattened for the op.
    copies: Vec<i32>,
    scratch: Workspace,
    scored_rows: usize,
    rows: RowReader,
    /// What the step under way has sampled.
    output: Option<StepOutput>,
}

/// Bounds fixed when the executor is made; all memory is taken from them.
#[derive(Clone, Copy, Debug)]
pub struct ExecutorShape {
    /// Tokens of a step.
    pub max_step_tokens: usize,
    /// Sequences of a step.
    pub max_seqs: usize,
    /// Pages of the pool, and the bytes of each.
    pub pages: usize,
    pub page_bytes: usize,
}

/// Memory an executor took at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTaken {
    pub kv_bytes: usize,
    pub scratch_bytes: usize,
}

impl CpuExecutor {
    /// `groups` are those of sequences that keep every key and value as it is.
    pub fn new(
        ops: Ops,
        decoder: Decoder,
        groups: Vec<KvGroup>,
        store: PageStore,
        shape: ExecutorShape,
    ) -> Result<Self, Error> {
        let layers: usize = groups.iter().map(|group| group.layers.len()).sum();
        assert_eq!(layers, decoder.spec().layers.len(), "layers of all groups");
        let kv = KvBuffer::new(&ops.device(), shape.page_bytes, shape.pages)?;
        // Rows are scored a batch of sequences at a time, also when a whole prompt is scored.
        let scored_rows = shape.max_seqs;
        let spec = decoder.spec();
        let tokens = shape.max_step_tokens;
        let layouts: Vec<KvLayout> =
            groups.iter().map(|group| group.layout).chain(any_slots(spec)).collect();
        // Each sequence may have a cache of its own kind, in layers of as many lengths.
        let groups_most = shape.max_seqs * spec.layers.len();
        let workspace = WorkspaceShape { tokens, groups: groups_most, layouts: &layouts };
        let scratch_bytes = decoder.workspace_bytes(&ops, workspace)
            + slots_bytes(spec, tokens, groups_most)
            + Workspace::bytes_for(ops.activation(), [tokens, spec.hidden])
            + Workspace::bytes_for(DType::F32, [scored_rows, spec.vocab]);
        let scratch = Workspace::new(&ops.device(), scratch_bytes)?;
        let dense = SeqCache::whole(groups);
        let batch = Batch::new(tokens, dense, spec.dynamic_rope.clone());
        let rows = RowReader::new(ops.workers().threads());
        Ok(CpuExecutor {
            ops,
            decoder,
            kv,
            batch,
            store,
            copies: Vec::new(),
            scratch,
            scored_rows,
            rows,
            output: None,
        })
    }

    pub fn memory_taken(&self) -> MemoryTaken {
        MemoryTaken { kv_bytes: self.kv.bytes(), scratch_bytes: self.scratch.len() }
    }

    fn copy_pages(&mut self, plan: &StepPlan) {
        self.copies.clear();
        for copy in &plan.copies {
            self.copies.extend([copy.from.0 as i32, copy.to.0 as i32]);
        }
        if !self.copies.is_empty() {
            let pairs = View::of(&self.copies, [self.copies.len() / 2, 2]);
            self.ops.copy_pages(self.kv.pages_mut(), pairs);
        }
    }

    /// The wanted rows that are embeddings somebody asked for.
    ///
    /// last: `[rows, hidden]`
    fn embeddings(
        &self,
        plan: &StepPlan,
        seqs: &Sequences,
        last: View<'_>,
    ) -> Vec<(SeqId, Vec<f32>)> {
        let uses = self.batch.uses().iter().enumerate();
        let ends = uses.filter(|(_, wanted)| wanted.kind == RowPurpose::Embed);
        let ends = ends.map(|(row, wanted)| (row, &seqs[plan.chunks[wanted.chunk].seq]));
        ends.map(|(row, seq)| (seq.id(), last.row::<f32>(row).to_vec())).collect()
    }

    /// The slots of chunks whose sequences keep a log.
    fn placements(
        &self,
        plan: &StepPlan,
        seqs: &Sequences,
        segments: &[KvSegment<'_>],
    ) -> Vec<(SeqId, Vec<Placement>)> {
        let asked = self.batch.reported_chunks(plan, seqs).into_iter();
        let reported = asked.map(|ReportedChunk { seq, segment, rows }| {
            let segment = &segments[segment];
            let slots = |group: usize| match &segment.groups[group] {
                GroupKv::Slots(kv) => {
                    let [_, tokens, kv_heads] = kv.slots.dims();
                    (kv.slots.as_view().as_slice(), [tokens, kv_heads])
                }
                GroupKv::Dense(_) => unreachable!("a policy has slots"),
            };
            (seq, replay::placements(segment.locations, rows, slots))
        });
        reported.collect()
    }

    fn run(&mut self, plan: &StepPlan, seqs: &Sequences) -> StepOutput {
        self.copy_pages(plan);
        let unseen = |seq| unreachable!("{seq:?} waits for a token: one step is under way");
        self.batch.fill(plan, seqs, unseen);
        self.scratch.reset();
        let ctx = StepCtx { ops: &self.ops, scratch: &self.scratch };
        let mut pages = self.kv.pages_mut();
        self.batch.segments().iter().for_each(|segment| segment.check(pages.reborrow()));
        let mut segments: Vec<_> =
            self.batch.segments().iter().map(|segment| segment.kv(&self.scratch)).collect();
        let kv = LayeredKv { pages, segments: &mut segments, before_layer: None };
        let (hidden, vocab) = (self.decoder.spec().hidden, self.decoder.spec().vocab);
        let wanted = self.batch.uses().len();
        let mut last = self.scratch.take(self.ops.activation(), [wanted, hidden]);
        self.decoder.forward(ctx, self.batch.rows(), kv, last.reborrow());

        let mut logits = self.scratch.take(DType::F32, [self.scored_rows, vocab]);
        let mut output = StepOutput {
            embeddings: self.embeddings(plan, seqs, last.as_view()),
            placements: self.placements(plan, seqs, &segments),
            ..StepOutput::default()
        };
        for (tile, uses) in self.batch.uses().chunks(self.scored_rows).enumerate() {
            let first = tile * self.scored_rows;
            let mut scores = logits.reborrow().first(uses.len());
            let last = last.as_view().rows(first..first + uses.len());
            self.decoder.score(ctx, last, scores.reborrow());
            let row = |wanted: &RowUse| Row::of(&seqs[plan.chunks[wanted.chunk].seq], wanted.kind);
            let rows: Vec<_> = uses.iter().map(row).collect();
            self.rows.read(self.ops.workers(), &rows, scores.as_view(), &mut output);
        }
        output
    }
}

impl Executor for CpuExecutor {
    fn max_under_way(&self) -> usize {
        1
    }

    fn samples_on_device(&self, _: &SamplingParams) -> bool {
        false
    }

    fn distinguishes_row_kinds(&self) -> bool {
        self.ops.distinguishes_row_kinds()
    }

    fn gives_embeddings(&self) -> bool {
        true
    }

    fn start(&mut self, plan: &StepPlan, seqs: &Sequences) -> Result<(), Error> {
        assert!(self.output.is_none(), "the step before is not finished");
        let (awaited, beside) = plan.awaited_moves();
        awaited.into_iter().try_for_each(|asked| self.store.start(asked, &mut self.kv))?;
        if !plan.chunks.is_empty() {
            self.output = Some(self.run(plan, seqs));
        }
        beside.into_iter().try_for_each(|asked| self.store.start(asked, &mut self.kv))?;
        Ok(())
    }

    fn finish(&mut self) -> Result<StepOutput, Error> {
        Ok(self.output.take().expect("a step is under way"))
    }

    fn arrived_moves(&mut self, wait: Wait) -> Result<Vec<MoveId>, Error> {
        Ok(self.store.arrived(wait)?)
    }

    fn read_pages(&mut self, pages: &[PageId]) -> Result<Vec<Vec<u8>>, Error> {
        let all = self.kv.pages_mut();
        Ok(pages.iter().map(|page| all.as_view().row_bytes(page.index()).to_vec()).collect())
    }
}
