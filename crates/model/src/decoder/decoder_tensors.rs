//! The tensors of a decoder as its files give them, by what they do.

use std::sync::Arc;

use terrace_kernels::{BiasedWeight, Matrix};

use crate::adapter::Adapter;

#[derive(Clone)]
pub struct DecoderTensors {
    /// `[vocab, hidden]`
    pub embed: Matrix,
    pub layers: Vec<LayerTensors>,
    pub final_norm: Vec<f32>,
    /// `[vocab, hidden]`; `None` when the embedding's rows score the vocabulary too.
    pub head: Option<Matrix>,
    /// Branches that change what the products compute.
    pub adapter: Option<Arc<Adapter>>,
}

impl DecoderTensors {
    pub fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let layers = self.layers.iter().flat_map(LayerTensors::matrices);
        layers.chain([&self.embed]).chain(&self.head)
    }

    /// Norms and biases, and where one may be but is not.
    pub fn vectors(&self) -> impl Iterator<Item = Option<&Vec<f32>>> {
        let layers = self.layers.iter().flat_map(LayerTensors::vectors);
        layers.chain([Some(&self.final_norm)])
    }
}

#[derive(Clone)]
pub struct LayerTensors {
    pub attention_norm: Vec<f32>,
    pub query: BiasedWeight,
    pub key: BiasedWeight,
    pub value: BiasedWeight,
    /// Norm of each query head before its rotation.
    pub query_norm: Option<Vec<f32>>,
    pub key_norm: Option<Vec<f32>>,
    pub output: BiasedWeight,
    pub ffn_norm: Vec<f32>,
    pub gate: BiasedWeight,
    pub up: BiasedWeight,
    pub down: BiasedWeight,
}

impl LayerTensors {
    fn matrices(&self) -> [&Matrix; 7] {
        let LayerTensors { query, key, value, output, gate, up, down, .. } = self;
        [query, key, value, output, gate, up, down].map(|linear| &linear.weight)
    }

    fn vectors(&self) -> impl Iterator<Item = Option<&Vec<f32>>> {
        let LayerTensors { query, key, value, output, gate, up, down, .. } = self;
        let biases = [query, key, value, output, gate, up, down].map(|linear| linear.bias.as_ref());
        let norms = [Some(&self.attention_norm), Some(&self.ffn_norm)];
        let of_heads = [self.query_norm.as_ref(), self.key_norm.as_ref()];
        biases.into_iter().chain(norms).chain(of_heads)
    }
}
