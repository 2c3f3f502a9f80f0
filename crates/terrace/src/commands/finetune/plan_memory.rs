//! What memory a run takes beside the model's own weights, and how keys and values are had again.

use terrace_cache::policy::{KvCacheSpec, SlotFormat};
use terrace_device::DType;
use terrace_model::{AttentionSpec, DecoderSpec, FfnSpec};
use terrace_tune::{GradientOptions, Lattice};

use super::planned_memory::PlannedMemory;

/// A batch of the longest text, and how its gradients are computed.
pub struct PlannedPass<'a> {
    pub spec: &'a DecoderSpec,
    pub cache: &'a KvCacheSpec,
    pub gradients: &'a GradientOptions,
    pub seqs: usize,
    pub tokens: usize,
    /// The type of queries, keys, values and what products take.
    pub activation: DType,
}

const F32: usize = DType::F32.bytes();

/// Numbers of one token.
#[derive(Clone, Copy, Default)]
struct Widths {
    query: usize,
    /// Keys and values.
    kv: usize,
    ffn: usize,
}

impl PlannedPass<'_> {
    /// What one rank takes.
    pub fn memory(&self) -> Vec<PlannedMemory> {
        let PlannedPass { spec, cache, gradients, seqs, tokens, .. } = *self;
        let act = self.activation.bytes();
        let (hidden, layers, widths) = (spec.hidden, spec.layers.len(), self.widths());
        let in_cell = gradients.lattice.layers_per_cell.min(layers);
        let rows = layers.div_ceil(in_cell);
        let slots: usize = (0..layers).map(|layer| cache.slots(layer).min(tokens)).sum();
        let Widths { query, kv, ffn } = widths;
        let kept = 4 * hidden * F32 + (2 * hidden + 3 * query + 2 * kv + 3 * ffn) * act;
        let passing = (3 * hidden + 3 * ffn.max(query)) * F32;
        let cell = seqs * self.cell_tokens() * (in_cell * kept + passing);
        let batch = seqs * tokens;
        let inputs = stored(batch * rows, hidden * F32, hidden, gradients.layer_checkpoints);
        let kv_rows = match self.cells() {
            0 | 1 => 0,
            _ => stored(batch * in_cell, kv * act, kv, gradients.kv_checkpoints),
        };
        let is_quantised = gradients.kv_checkpoints != SlotFormat::Plain;
        let kv_rows = match gradients.kv_on_host || is_quantised {
            true => PlannedMemory::on_host("keys and values of a row", kv_rows),
            false => PlannedMemory::on_device("keys and values of a row", kv_rows),
        };
        let slots = seqs * slots * kv * act;
        vec![
            PlannedMemory::on_host("layers' inputs", inputs),
            PlannedMemory::on_host("outputs and their gradients", 2 * batch * hidden * F32),
            PlannedMemory::on_device("slots of all layers", slots),
            kv_rows,
            PlannedMemory::on_device("what a cell's layers compute", cell),
            PlannedMemory::on_device("logits", gradients.logits_most * F32),
        ]
    }

    /// How a row's keys and values are had again when the lattice is walked back.
    pub fn way(&self) -> &'static str {
        match (self.cells(), self.gradients.lattice.layers_per_cell) {
            (0 | 1, _) => "texts are one cell: nothing is computed twice",
            (_, 1) => "keys and values are two products of each layer's inputs: no second pass",
            _ => "keys and values come of a second pass over each row: more than a layer a cell",
        }
    }

    fn lattice(&self) -> Option<Lattice> {
        let layers = self.spec.layers.len();
        Lattice::new(self.cache, layers, self.tokens, 1, &self.gradients.lattice).ok()
    }

    fn cells(&self) -> usize {
        self.lattice().map_or(0, |lattice| lattice.cells().len())
    }

    /// Of the longest cell.
    fn cell_tokens(&self) -> usize {
        let lattice = self.lattice();
        let lengths = lattice.iter().flat_map(Lattice::cells).map(|cell| cell.tokens.len());
        lengths.max().unwrap_or(0)
    }

    /// Of the widest layer.
    fn widths(&self) -> Widths {
        self.spec.layers.iter().fold(Widths::default(), |widest, layer| {
            let AttentionSpec::GroupedQuery(attention) = &layer.attention;
            let FfnSpec::Gated(ffn) = &layer.ffn;
            Widths {
                query: widest.query.max(attention.query_width()),
                kv: widest.kv.max(2 * attention.kv_width()),
                ffn: widest.ffn.max(ffn.width),
            }
        })
    }
}

/// Bytes of so many rows as checkpoints keep them. `plain_bytes`: of a row as it is.
fn stored(rows: usize, plain_bytes: usize, width: usize, format: SlotFormat) -> usize {
    rows * format.quantiser().map_or(plain_bytes, |quantiser| quantiser.row_bytes(width))
}
