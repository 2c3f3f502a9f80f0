//! What all layers of a cell share: its tokens, its chunks, their rotations.

use std::ops::Range;

use terrace_kernels::{ChunkAt, RopeAngles, RopeAnglesArgs, RopeFrequencies, RopeStyle, TuneOps};
use terrace_model::{AttentionSpec, DecoderSpec};

use crate::error::Error;
use crate::model::{DroppedRows, LayerDims};
use crate::tensor::Tensor;

/// A batch's rotations and scales of attention, which depend on how long it is.
pub(crate) struct BatchRope {
    /// Frequencies, with the scale of cosine and sine.
    ropes: Vec<(Tensor, f32, RopeStyle)>,
    /// Of each layer: which rotation, and the scale of its attention.
    layers: Vec<(usize, f32)>,
}

impl BatchRope {
    pub fn new(ops: &TuneOps<'_>, spec: &DecoderSpec) -> Result<Self, Error> {
        let rope = |rope: &terrace_model::RopeSpec| {
            let pairs = rope.inv_freq.len();
            let frequencies = Tensor::of(ops, "frequencies", &rope.inv_freq, [1, pairs])?;
            Ok((frequencies, rope.scale, rope.style))
        };
        let layers = spec.layers.iter().map(|layer| {
            let AttentionSpec::GroupedQuery(attention) = &layer.attention;
            (attention.rope, attention.scale)
        });
        let ropes = spec.ropes.iter().map(rope).collect::<Result<_, Error>>()?;
        Ok(BatchRope { ropes, layers: layers.collect() })
    }

    pub fn scale(&self, layer: usize) -> f32 {
        self.layers[layer].1
    }
}

pub(crate) struct CellPass<'a> {
    pub seqs: usize,
    /// Positions of the cell's tokens.
    pub tokens: Range<usize>,
    pub chunks: &'a [usize],
    pub rope: &'a BatchRope,
    pub norm_eps: f32,
    /// Of what branches leave out of their inputs.
    pub dropout_seed: Option<u64>,
    /// Cosine and sine of each rotation, f32 `[seqs * tokens, pairs]`.
    angles: Vec<[Tensor; 2]>,
}

impl<'a> CellPass<'a> {
    pub fn new(
        ops: &TuneOps<'_>,
        seqs: usize,
        tokens: Range<usize>,
        chunks: &'a [usize],
        rope: &'a BatchRope,
        norm_eps: f32,
        dropout_seed: Option<u64>,
    ) -> Result<Self, Error> {
        let rows = seqs * tokens.len();
        let positions: Vec<i32> =
            (0..rows).map(|row| (tokens.start + row % tokens.len()) as i32).collect();
        let positions = Tensor::of(ops, "positions of a cell", &positions, [rows])?;
        let angles = rope.ropes.iter().map(|(frequencies, scale, _)| {
            let [_, pairs] = frequencies.view().dims();
            let zeros = || Tensor::unset(ops, "angles of a cell", [rows, pairs]);
            let (mut cos, mut sin) = (zeros()?, zeros()?);
            ops.rope_angles(RopeAnglesArgs {
                positions: positions.view(),
                frequencies: RopeFrequencies { inv_freqs: frequencies.view(), row_seqs: None },
                scale: *scale,
                cos: cos.view_mut(),
                sin: sin.view_mut(),
            });
            Ok([cos, sin])
        });
        let angles = angles.collect::<Result<_, Error>>()?;
        Ok(CellPass { seqs, tokens, chunks, rope, norm_eps, dropout_seed, angles })
    }

    pub fn rows(&self) -> usize {
        self.seqs * self.tokens.len()
    }

    /// By which branches leave out the same whenever the cell is run.
    pub fn dropped(&self) -> Option<DroppedRows> {
        let (tokens, position) = (self.tokens.len(), self.tokens.start);
        self.dropout_seed.map(|seed| DroppedRows { seed, tokens, position })
    }

    pub fn angles(&self, layer: usize) -> (RopeAngles<'_>, RopeStyle) {
        let (rope, _) = self.rope.layers[layer];
        let [cos, sin] = &self.angles[rope];
        (RopeAngles { cos: cos.view(), sin: sin.view() }, self.rope.ropes[rope].2)
    }

    /// The cell's chunks, as ops find them in its arrays.
    pub fn chunks_of(&self, dims: LayerDims) -> impl Iterator<Item = ChunkAt> + use<'_> {
        let mut first = 0;
        self.chunks.iter().map(move |tokens| {
            let at = ChunkAt {
                seqs: self.seqs,
                row_tokens: self.tokens.len(),
                first,
                tokens: *tokens,
                position: self.tokens.start + first,
                heads: dims.heads,
                kv_heads: dims.kv_heads,
                dim: dims.head_dim,
            };
            first += tokens;
            at
        })
    }
}
