//! The weights of a decoder where its device wants them.

use std::sync::Arc;

use terrace_kernels::{BiasedWeight, Linear, LinearShape, Ops, TableUse, Vector, WeightFormat};

use crate::decoder::{DecoderTensors, LayerTensors};
use crate::decoder_spec::DecoderSpec;
use crate::error::Error;
use crate::layer_spec::{AttentionSpec, FfnSpec, LayerSpec};

pub(super) struct PlacedWeights {
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

impl PlacedWeights {
    /// `progress` is called after each layer.
    pub fn place(
        spec: &DecoderSpec,
        tensors: DecoderTensors,
        ops: &Ops,
        mut progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let used = match tensors.head {
            Some(_) => TableUse::LookUp,
            None => TableUse::LookUpAndScore,
        };
        let embed = Arc::new(ops.place_table(tensors.embed, used)?);
        let head = match tensors.head {
            Some(weight) => Arc::new(ops.place(vec![BiasedWeight { weight, bias: None }])?),
            None => Arc::clone(&embed),
        };
        let mut layers = Vec::with_capacity(tensors.layers.len());
        for layer in tensors.layers {
            layers.push(LayerWeights::place(layer, ops)?);
            progress();
        }
        let final_norm = ops.place_vector(&tensors.final_norm)?;
        let inv_freqs = inv_freqs(spec, ops)?;
        Ok(PlacedWeights { embed, layers, final_norm, head, inv_freqs })
    }

    /// Numbers that mean nothing, of the spec's sizes.
    pub fn random(
        spec: &DecoderSpec,
        format: WeightFormat,
        ops: &Ops,
        mut progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let mut seed = 0;
        let mut random = |shape| {
            seed += 1;
            ops.random(shape, format, seed)
        };
        let plain = |rows, columns| LinearShape { rows, columns, gated: false, table: None };
        let hidden = spec.hidden;
        let norm = || ops.place_vector(&vec![1.0; hidden]);
        let mut layers = Vec::with_capacity(spec.layers.len());
        for LayerSpec { attention, ffn } in &spec.layers {
            let AttentionSpec::GroupedQuery(attention) = attention;
            let FfnSpec::Gated(ffn) = ffn;
            let (query, key) = (attention.query_width(), attention.kv_width());
            layers.push(LayerWeights {
                attention_norm: norm()?,
                qkv: random(plain(query + 2 * key, hidden))?,
                query_norm: None,
                key_norm: None,
                output: random(plain(hidden, query))?,
                ffn_norm: norm()?,
                gate_up: random(LinearShape { gated: true, ..plain(2 * ffn.width, hidden) })?,
                down: random(plain(hidden, ffn.width))?,
            });
            progress();
        }
        let used = if spec.tied_head { TableUse::LookUpAndScore } else { TableUse::LookUp };
        let scores = plain(spec.vocab, hidden);
        let embed = Arc::new(random(LinearShape { table: Some(used), ..scores })?);
        let head = match spec.tied_head {
            true => Arc::clone(&embed),
            false => Arc::new(random(scores)?),
        };
        let (final_norm, inv_freqs) = (norm()?, inv_freqs(spec, ops)?);
        Ok(PlacedWeights { embed, layers, final_norm, head, inv_freqs })
    }

    /// Passes the ops the order in which a step uses the matrices.
    pub fn link(&self, ops: &Ops) {
        ops.link(&self.step_matrices().collect::<Vec<&Linear>>());
    }

    /// Bytes of all matrices.
    pub fn bytes(&self) -> usize {
        let is_tied = Arc::ptr_eq(&self.embed, &self.head);
        self.step_bytes() + if is_tied { 0 } else { self.embed.bytes() }
    }

    /// Bytes of the matrices that a step reads whole.
    pub fn step_bytes(&self) -> usize {
        self.step_matrices().map(Linear::bytes).sum()
    }

    /// The matrices that a step reads whole, in its order.
    fn step_matrices(&self) -> impl Iterator<Item = &Linear> {
        let layers = self.layers.iter();
        layers
            .flat_map(|layer| [&layer.qkv, &layer.output, &layer.gate_up, &layer.down])
            .chain([&*self.head])
    }
}

fn inv_freqs(spec: &DecoderSpec, ops: &Ops) -> Result<Vec<Vector>, terrace_kernels::Error> {
    spec.ropes.iter().map(|rope| ops.place_vector(&rope.inv_freq)).collect()
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
