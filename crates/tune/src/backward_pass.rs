//! The lattice walked back: rows from the last layers to the first, cells from right to left.
//!
//! A row first gets the keys and values of all tokens that later cells begin with. For its last
//! layer those are two products of what the layer was given; for the layers below it the row is
//! run once more, without keeping anything. Then each cell gathers its first slots, runs forward
//! with all that backward needs, and backward. The very first one has been kept by the forward
//! pass, where that computes what a replay does.

use std::ops::Range;

use terrace_cache::policy::SlotFormat;
use terrace_kernels::TuneOps;

use crate::batch::Batch;
use crate::checkpoints::{KeptAt, RowsKept, StoredRows};
use crate::error::Error;
use crate::forward_pass::CellTrace;
use crate::layer::{BatchRope, CellPass, LayerPass, LayerTrace, SlotGradients};
use crate::model::{Gradients, RowRoom, RowWeights, TunedModel};
use crate::pass_events::PassEvents;
use crate::plan::{Cell, Lattice};
use crate::slots::{BatchReplay, LayerSlots, SlotChoice};
use crate::tensor::Tensor;

pub(crate) struct BackwardPass<'a> {
    pub ops: TuneOps<'a>,
    pub model: &'a TunedModel,
    pub rope: &'a BatchRope,
    pub lattice: &'a Lattice,
    pub batch: &'a Batch<'a>,
    pub replay: &'a BatchReplay,
    pub kv_checkpoints: SlotFormat,
    pub kv_place: KeptAt,
    pub dropout_seed: u64,
}

/// Keys and values of all tokens in one layer.
type LayerKv = [StoredRows; 2];

impl BackwardPass<'_> {
    /// inputs: of each row's first layer · d_rows: of the last layer's outputs, and in the end of
    /// the first layer's inputs
    pub fn run(
        &self,
        inputs: &[StoredRows],
        mut last_cell: Option<CellTrace>,
        d_rows: &mut StoredRows,
        gradients: &mut Gradients,
        events: &mut dyn PassEvents,
    ) -> Result<(), Error> {
        let mut room = RowRoom::default();
        for (row, inputs) in self.lattice.rows().iter().zip(inputs).rev() {
            let weights = RowWeights::bring(&self.ops, &self.model.layers, row, room)?;
            let away = || self.model.layers[row.clone()].iter().flat_map(|it| it.trained_away());
            gradients.begin(&self.ops, away())?;
            self.run_row(&weights, row, inputs, last_cell.take(), d_rows, gradients)?;
            gradients.end(&self.ops, away())?;
            room = weights.into_room();
            events.row_done(row.start)?;
        }
        if let Some(id) = self.model.embed.id {
            let tokens = 0..self.batch.tokens();
            let (ids, d_x) = (self.batch.ids, d_rows.read(&self.ops, &tokens)?);
            let ids = Tensor::of(&self.ops, "token ids", ids, [ids.len()])?;
            self.ops.embed_gradient(ids.view(), d_x.view(), gradients.view_mut(id));
        }
        Ok(())
    }

    fn run_row(
        &self,
        weights: &RowWeights<'_>,
        layers: &Range<usize>,
        inputs: &StoredRows,
        mut last_cell: Option<CellTrace>,
        d_rows: &mut StoredRows,
        gradients: &mut Gradients,
    ) -> Result<(), Error> {
        let kv = self.key_values(weights, layers, inputs)?;
        let d_slots = layers.clone().map(|layer| {
            let dims = self.model.layers[layer].dims;
            SlotGradients::none(&self.ops, dims, self.batch.seqs, self.replay.slots(layer))
        });
        let mut d_slots: Vec<SlotGradients> = d_slots.collect::<Result<_, _>>()?;
        for cell in self.lattice.cells().iter().rev() {
            let pass = self.cell_pass(cell)?;
            let CellTrace { traces, mut slots } = match last_cell.take() {
                Some(last_cell) => last_cell,
                None => self.run_cell(weights, layers, &pass, cell, inputs, &kv)?,
            };
            let mut d_x = d_rows.read(&self.ops, &cell.tokens)?;
            let each = layers.clone().zip(traces).zip(slots.iter_mut().zip(&mut d_slots));
            for ((layer, trace), (slots, d_slots)) in each.rev() {
                let pass = self.layer_pass(weights, layer, &pass);
                d_x = pass.backward(trace, d_x, slots, d_slots, gradients)?;
            }
            d_rows.write(&self.ops, &cell.tokens, &d_x)?;
        }
        Ok(())
    }

    /// A cell once more, with all that backward needs.
    fn run_cell(
        &self,
        weights: &RowWeights<'_>,
        layers: &Range<usize>,
        pass: &CellPass<'_>,
        cell: &Cell,
        inputs: &StoredRows,
        kv: &[LayerKv],
    ) -> Result<CellTrace, Error> {
        let mut slots = self.first_slots(layers, cell, kv)?;
        let mut x = inputs.read(&self.ops, &cell.tokens)?;
        let mut traces: Vec<LayerTrace> = Vec::new();
        for (layer, slots) in layers.clone().zip(&mut slots) {
            let choice = SlotChoice::Replay(self.replay);
            let pass = self.layer_pass(weights, layer, pass);
            let (out, trace) = pass.forward(x, slots, choice, None)?;
            traces.push(trace);
            x = out;
        }
        Ok(CellTrace { traces, slots })
    }

    /// A cell's slots before its first chunk.
    fn first_slots(
        &self,
        layers: &Range<usize>,
        cell: &Cell,
        kv: &[LayerKv],
    ) -> Result<Vec<LayerSlots>, Error> {
        let layers = layers.clone().enumerate();
        let slots = layers.map(|(i, layer)| {
            let dims = self.model.layers[layer].dims;
            match kv.get(i) {
                Some([keys, values]) if cell.tokens.start > 0 => {
                    let tokens = cell.tokens.start;
                    LayerSlots::gathered(
                        &self.ops,
                        dims,
                        self.replay,
                        layer,
                        tokens,
                        [keys, values],
                    )
                }
                _ => LayerSlots::empty(&self.ops, dims, self.batch.seqs, self.replay.slots(layer)),
            }
        });
        slots.collect()
    }

    /// Of each layer of a row, for all cells but the last, whose tokens no cell begins with.
    fn key_values(
        &self,
        weights: &RowWeights<'_>,
        layers: &Range<usize>,
        inputs: &StoredRows,
    ) -> Result<Vec<LayerKv>, Error> {
        let Some((_, cells)) = self.lattice.cells().split_last().filter(|(_, c)| !c.is_empty())
        else {
            return Ok(Vec::new());
        };
        let kept_tokens = cells.last().map_or(0, |cell| cell.tokens.end);
        let seqs = self.batch.seqs;
        let mut kv: Vec<LayerKv> = Vec::new();
        let mut slots = Vec::new();
        for layer in layers.clone() {
            let dims = self.model.layers[layer].dims;
            let rows = RowsKept {
                seqs,
                tokens: kept_tokens,
                blocks: dims.kv_heads,
                block: dims.head_dim,
                dtype: self.ops.activation(),
                format: self.kv_checkpoints,
                place: self.kv_place,
                argument: "grad.cachecp_qname",
            };
            kv.push([StoredRows::new(&self.ops, rows)?, StoredRows::new(&self.ops, rows)?]);
            if layer + 1 < layers.end {
                slots.push(LayerSlots::empty(&self.ops, dims, seqs, self.replay.slots(layer))?);
            }
        }
        for cell in cells {
            let pass = self.cell_pass(cell)?;
            let mut x = inputs.read(&self.ops, &cell.tokens)?;
            for (i, layer) in layers.clone().enumerate() {
                let pass = self.layer_pass(weights, layer, &pass);
                let Some(slots) = slots.get_mut(i) else {
                    let rows = pass.key_values(&x)?;
                    for (kept, rows) in kv[i].iter_mut().zip(&rows) {
                        kept.write(&self.ops, &cell.tokens, rows)?;
                    }
                    break;
                };
                let choice = SlotChoice::Replay(self.replay);
                let (out, trace) = pass.forward(x, slots, choice, None)?;
                for (kept, rows) in kv[i].iter_mut().zip(trace.key_values()) {
                    kept.write(&self.ops, &cell.tokens, rows)?;
                }
                x = out;
            }
        }
        Ok(kv)
    }

    fn cell_pass(&self, cell: &Cell) -> Result<CellPass<'_>, Error> {
        let chunks = self.lattice.chunks_of(cell);
        let (seqs, eps) = (self.batch.seqs, self.model.norm_eps);
        let dropout = Some(self.dropout_seed);
        CellPass::new(&self.ops, seqs, cell.tokens.clone(), chunks, self.rope, eps, dropout)
    }

    fn layer_pass<'p>(
        &'p self,
        weights: &'p RowWeights<'p>,
        layer: usize,
        cell: &'p CellPass<'p>,
    ) -> LayerPass<'p> {
        LayerPass { ops: self.ops, weights: weights.layer(layer), layer, cell }
    }
}
