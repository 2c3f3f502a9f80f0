//! The pass that makes decisions: it runs the policy, keeps what backward starts from, and writes
//! the replay log.
//!
//! Cells go from left to right, and within a cell layers from the first to the last. What happens
//! inside a layer is kept of the last cell and the last row alone, with which backward begins.

use std::ops::Range;

use terrace_cache::policy::{KvCacheSpec, ReplayLog, SlotFormat};
use terrace_device::DType;
use terrace_kernels::TuneOps;

use crate::batch::Batch;
use crate::checkpoints::{KeptAt, RowsKept, StoredRows};
use crate::error::Error;
use crate::gradient_options::GradientOptions;
use crate::layer::{BatchRope, CellPass, LayerPass, LayerTrace};
use crate::model::{RowRoom, RowWeights, TunedModel};
use crate::plan::{Cell, Lattice};
use crate::slots::{BatchReplay, LayerSlots, PolicySlots, Rounding, SlotChoice};
use crate::tensor::Tensor;

pub(crate) struct ForwardPass<'a> {
    pub ops: TuneOps<'a>,
    pub model: &'a TunedModel,
    pub cache: &'a KvCacheSpec,
    pub rope: &'a BatchRope,
    pub lattice: &'a Lattice,
    pub options: &'a GradientOptions,
    pub batch: &'a Batch<'a>,
    pub keeps: Keeps,
}

/// What of a pass is kept besides the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// What the head is given: enough for a loss.
    Outputs,
    /// Rows' inputs and the last cell as well: backward starts from them.
    RowInputs,
}

/// What backward starts from.
pub(crate) struct Checkpoints {
    /// The input of each row's first layer.
    pub row_inputs: Vec<StoredRows>,
    /// The last layer's outputs that the head is given.
    pub outputs: StoredRows,
    /// Backward begins with the cell that forward ends with: where a replay would compute the same
    /// once more, that is kept.
    pub last_cell: Option<CellTrace>,
}

/// A cell of a row: of each layer what backward needs, and the slots after it.
pub(crate) struct CellTrace {
    pub traces: Vec<LayerTrace>,
    pub slots: Vec<LayerSlots>,
}

/// Who decides.
pub(crate) enum Decisions {
    /// The policy, with the log of each sequence so far.
    Policy(Vec<PolicySlots>, Vec<ReplayLog>),
    Replay(BatchReplay),
}

impl Decisions {
    pub fn of_policy(
        ops: &TuneOps<'_>,
        cache: &KvCacheSpec,
        model: &TunedModel,
        seqs: usize,
    ) -> Result<Self, Error> {
        let layers = model.layers.iter().enumerate();
        let tables: Vec<PolicySlots> = layers
            .map(|(layer, weights)| PolicySlots::new(ops, cache, layer, weights.dims, seqs))
            .collect::<Result<_, _>>()?;
        let shapes: Vec<_> = tables.iter().map(PolicySlots::shape).collect();
        Ok(Decisions::Policy(tables, vec![ReplayLog::new(&shapes); seqs]))
    }

    fn layer(&mut self, layer: usize) -> SlotChoice<'_> {
        match self {
            Decisions::Policy(tables, _) => SlotChoice::Policy(&mut tables[layer]),
            Decisions::Replay(replay) => SlotChoice::Replay(replay),
        }
    }

    /// What was decided, once the pass is over.
    pub fn into_replay(self) -> BatchReplay {
        match self {
            Decisions::Policy(_, logs) => BatchReplay::new(logs),
            Decisions::Replay(replay) => replay,
        }
    }

    /// Writes down what all layers have placed in a cell, chunk by chunk as logs have it.
    fn log_cell(&mut self, ops: &TuneOps<'_>) -> Result<(), Error> {
        let Decisions::Policy(tables, logs) = self else { return Ok(()) };
        let placed = tables.iter_mut().map(|table| table.take_placed(ops));
        let placed: Vec<_> = placed.collect::<Result<_, _>>()?;
        for chunk in 0..placed[0].len() {
            for (seq, log) in logs.iter_mut().enumerate() {
                log.begin_chunk(placed[0][chunk][seq].tokens);
                for (layer, placed) in placed.iter().enumerate() {
                    log.record(layer, &placed[chunk][seq]);
                }
            }
        }
        Ok(())
    }
}

impl ForwardPass<'_> {
    pub fn run(&self, decisions: &mut Decisions) -> Result<Checkpoints, Error> {
        let mut checkpoints = self.empty_checkpoints()?;
        let seqs = self.batch.seqs;
        let slots = self.model.layers.iter().enumerate().map(|(layer, weights)| {
            let taken = self.cache.slots(layer).min(self.batch.tokens());
            LayerSlots::empty(&self.ops, weights.dims, seqs, taken)
        });
        let mut slots: Vec<LayerSlots> = slots.collect::<Result<_, _>>()?;
        let mut traces = Vec::new();
        for cell in self.lattice.cells() {
            traces = self.run_cell(cell, &mut slots, decisions, &mut checkpoints)?;
            decisions.log_cell(&self.ops)?;
        }
        if self.keeps_last_cell() {
            let slots = slots.split_off(self.last_row().start);
            checkpoints.last_cell = Some(CellTrace { traces, slots });
        }
        Ok(checkpoints)
    }

    fn last_row(&self) -> &Range<usize> {
        self.lattice.rows().last().expect("a model has layers")
    }

    /// Only where a replay computes what this pass does: it rounds no rows of the cache, and begins
    /// with checkpoints.
    fn keeps_last_cell(&self) -> bool {
        let GradientOptions { layer_checkpoints, kv_checkpoints, .. } = *self.options;
        let formats = [self.cache.keys, self.cache.values, layer_checkpoints, kv_checkpoints];
        self.keeps == Keeps::RowInputs && formats == [SlotFormat::Plain; 4]
    }

    /// What the layers of the last row leave for backward, if that is kept of the cell.
    fn run_cell(
        &self,
        cell: &Cell,
        slots: &mut [LayerSlots],
        decisions: &mut Decisions,
        checkpoints: &mut Checkpoints,
    ) -> Result<Vec<LayerTrace>, Error> {
        let chunks = self.lattice.chunks_of(cell);
        let (seqs, eps) = (self.batch.seqs, self.model.norm_eps);
        // A loss alone is that of the whole branches.
        let dropout = (self.keeps == Keeps::RowInputs).then_some(self.options.dropout_seed);
        let pass =
            CellPass::new(&self.ops, seqs, cell.tokens.clone(), chunks, self.rope, eps, dropout)?;
        let formats = [self.cache.keys, self.cache.values];
        let is_rounded = formats.iter().any(|format| *format != SlotFormat::Plain);
        let rounding = is_rounded.then_some(self.options.rounding);
        let is_kept = self.keeps_last_cell() && self.lattice.cells().last() == Some(cell);
        let mut traces = Vec::new();
        let mut x = self.embed(cell)?;
        let mut room = RowRoom::default();
        for (layer, slots) in slots.iter_mut().enumerate() {
            let row = self.lattice.rows().iter().position(|row| row.start == layer);
            if let Some(inputs) = row.and_then(|row| checkpoints.row_inputs.get_mut(row)) {
                inputs.write(&self.ops, &cell.tokens, &x)?;
            }
            let row = RowWeights::bring(&self.ops, &self.model.layers, &(layer..layer + 1), room)?;
            let weights = row.layer(layer);
            let pass = LayerPass { ops: self.ops, weights, layer, cell: &pass };
            let before = (rounding == Some(Rounding::EachRow)).then_some(formats);
            let (out, trace) = pass.forward(x, slots, decisions.layer(layer), before)?;
            if is_kept && self.last_row().contains(&layer) {
                traces.push(trace);
            }
            x = out;
            room = row.into_room();
            if rounding == Some(Rounding::EachCell) {
                slots.round(&self.ops, formats)?;
            }
        }
        self.keep_outputs(cell, &x, &mut checkpoints.outputs)?;
        Ok(traces)
    }

    fn embed(&self, cell: &Cell) -> Result<Tensor, Error> {
        let ids = self.batch.ids_at(&cell.tokens);
        let mut x = Tensor::unset(&self.ops, "embedded tokens", [ids.len(), self.model.hidden])?;
        let ids = Tensor::of(&self.ops, "token ids", &ids, [ids.len()])?;
        self.ops.embed(ids.view(), &self.model.embed.linear, x.view_mut());
        Ok(x)
    }

    /// Of the cell's tokens those that the head is given.
    fn keep_outputs(&self, cell: &Cell, x: &Tensor, outputs: &mut StoredRows) -> Result<(), Error> {
        let first = self.model.head_model.positions(self.batch).start;
        let start = cell.tokens.start.max(first);
        if cell.tokens.end <= start {
            return Ok(());
        }
        let kept = start - first..cell.tokens.end - first;
        outputs.write_from(&self.ops, &kept, x, start - cell.tokens.start)
    }

    fn empty_checkpoints(&self) -> Result<Checkpoints, Error> {
        let (seqs, tokens, hidden) = (self.batch.seqs, self.batch.tokens(), self.model.hidden);
        let format = self.options.layer_checkpoints;
        // Two halves of a row, each with its own scale.
        let blocks = if hidden.is_multiple_of(2) { [2, hidden / 2] } else { [1, hidden] };
        let [blocks, block] = blocks;
        let inputs = RowsKept {
            seqs,
            tokens,
            blocks,
            block,
            dtype: DType::F32,
            format,
            place: KeptAt::Host,
            argument: "grad.layercp_qname",
        };
        let given = self.model.head_model.positions(self.batch).len();
        let outputs = RowsKept {
            tokens: given,
            blocks: 1,
            block: hidden,
            format: SlotFormat::Plain,
            ..inputs
        };
        let outputs = StoredRows::new(&self.ops, outputs)?;
        let rows = match self.keeps {
            Keeps::RowInputs => self.lattice.rows(),
            Keeps::Outputs => &[],
        };
        let row_inputs = rows.iter().map(|_| StoredRows::new(&self.ops, inputs));
        let row_inputs = row_inputs.collect::<Result<_, _>>()?;
        Ok(Checkpoints { row_inputs, outputs, last_cell: None })
    }
}
