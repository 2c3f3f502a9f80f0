//! The weights of a decoder where its device wants them.

use std::sync::Arc;

use terrace_kernels::{Linear, LinearPart, Ops, Vector};

use crate::decoder::{DecoderTensors, LayerTensors};
use crate::error::Error;
use crate::spec::DecoderSpec;

pub(super) struct Weights {
    pub embed: Arc<Linear>,
    pub layers: Vec<LayerWeights>,
    pub final_norm: Vector,
    /// The same as `embed` when tied.
    pub head: Arc<Linear>,
    /// Frequencies of each of the spec's rotations.
    pub inv_freqs: Vec<Vector>,
}

pub(super) struct LayerWeights {
    pub attention_norm: Vector,
    /// Queries, keys and values side by side.
    pub qkv: Linear,
    pub query_norm: Option<Vector>,
    pub key_norm: Option<Vector>,
    pub output: Linear,
    pub ffn_norm: Vector,
    pub gate_up: Linear,
    pub down: Linear,
}

impl Weights {
    /// `progress` is told after each layer.
    pub fn place(
        spec: &DecoderSpec,
        tensors: DecoderTensors,
        ops: &Ops,
        mut progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let matrix = |weight| ops.place(vec![LinearPart { weight, bias: None }]).map(Arc::new);
        let embed = matrix(tensors.embed)?;
        let head = match tensors.head {
            Some(head) => matrix(head)?,
            None => Arc::clone(&embed),
        };
        let mut layers = Vec::with_capacity(tensors.layers.len());
        for layer in tensors.layers {
            layers.push(LayerWeights::place(layer, ops)?);
            progress();
        }
        let inv_freqs = spec.ropes.iter().map(|rope| ops.place_vector(&rope.inv_freq));
        Ok(Weights {
            embed,
            layers,
            final_norm: ops.place_vector(&tensors.final_norm)?,
            head,
            inv_freqs: inv_freqs.collect::<Result<_, _>>()?,
        })
    }
}

impl LayerWeights {
    fn place(layer: LayerTensors, ops: &Ops) -> Result<Self, Error> {
        let norm = |norm: Option<Vec<f32>>| norm.map(|norm| ops.place_vector(&norm)).transpose();
        Ok(LayerWeights {
            attention_norm: ops.place_vector(&layer.attention_norm)?,
            qkv: ops.place(vec![layer.query, layer.key, layer.value])?,
            query_norm: norm(layer.query_norm)?,
            key_norm: norm(layer.key_norm)?,
            output: ops.place(vec![layer.output])?,
            ffn_norm: ops.place_vector(&layer.ffn_norm)?,
            gate_up: ops.place_gated(layer.gate, layer.up)?,
            down: ops.place(vec![layer.down])?,
        })
    }
}
