//! The tensors of a decoder, by what they do.

use terrace_device::{View, ViewMut};
use terrace_kernels::{Matrix, Projection};

pub struct DecoderWeights {
    /// `[vocab, hidden]`
    pub embed: Matrix,
    pub layers: Vec<LayerWeights>,
    pub final_norm: Vec<f32>,
    /// `[vocab, hidden]`; the same bytes as `embed` when tied.
    pub head: Matrix,
}

pub struct LayerWeights {
    pub attention_norm: Vec<f32>,
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    /// Norm of each query head before its rotation.
    pub query_norm: Option<Vec<f32>>,
    pub key_norm: Option<Vec<f32>>,
    pub output: Linear,
    pub ffn_norm: Vec<f32>,
    pub gate: Linear,
    pub up: Linear,
    pub down: Linear,
}

/// A product with an optional bias.
pub struct Linear {
    pub weight: Matrix,
    pub bias: Option<Vec<f32>>,
}

impl Linear {
    /// The product with its result going to `out`.
    pub(super) fn to<'a>(&'a self, out: ViewMut<'a>) -> Projection<'a> {
        let bias = self.bias.as_deref().map(vector);
        Projection { weight: &self.weight, bias, out }
    }
}

pub(super) fn vector(values: &[f32]) -> View<'_> {
    View::of(values, [values.len()])
}
