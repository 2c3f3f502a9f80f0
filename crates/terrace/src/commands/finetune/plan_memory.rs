//! What memory a run takes beside the model's own weights, and how keys and values are had again.

use terrace_cache::policy::{KvCacheSpec, SlotFormat};
use terrace_model::{AttentionSpec, DecoderSpec, FfnSpec};
use terrace_tune::{GradientOptions, Lattice};

/// A batch of the longest text, and how its gradients are computed.
pub struct PlannedPass<'a> {
    pub spec: &'a DecoderSpec,
    pub cache: &'a KvCacheSpec,
    pub gradients: &'a GradientOptions,
    pub seqs: usize,
    pub tokens: usize,
}

const F32: usize = 4;

/// Numbers of one token.
#[derive(Clone, Copy, Default)]
struct Widths {
    query: usize,
    /// Keys and values.
    kv: usize,
    ffn: usize,
}

impl PlannedPass<'_> {
    /// Names and bytes of what one rank takes.
    pub fn memory(&self) -> Vec<(&'static str, usize)> {
        let PlannedPass { spec, cache, gradients, seqs, tokens } = *self;
        let (hidden, layers, widths) = (spec.hidden, spec.layers.len(), self.widths());
        let in_cell = gradients.lattice.layers_per_cell.min(layers);
        let rows = layers.div_ceil(in_cell);
        let slots: usize = (0..layers).map(|layer| cache.slots(layer).min(tokens)).sum();
        let kept = 6 * hidden + 3 * widths.query + 2 * widths.kv + 3 * widths.ffn;
        let passing = 3 * hidden + 3 * widths.ffn.max(widths.query);
        let cell = seqs * self.cell_tokens() * (in_cell * kept + passing);
        let batch = seqs * tokens;
        let inputs = stored(batch * rows, hidden, gradients.layer_checkpoints);
        let kv = match self.cells() {
            0 | 1 => 0,
            _ => stored(batch * in_cell, widths.kv, gradients.kv_checkpoints),
        };
        vec![
            ("layers' inputs", inputs),
            ("outputs and their gradients", 2 * batch * hidden * F32),
            ("slots of all layers", seqs * slots * widths.kv * F32),
            ("keys and values of a row", kv),
            ("what a cell's layers compute", cell * F32),
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

/// Bytes of so many rows as checkpoints keep them.
fn stored(rows: usize, width: usize, format: SlotFormat) -> usize {
    rows * format.quantiser().map_or(width * F32, |quantiser| quantiser.row_bytes(width))
}
