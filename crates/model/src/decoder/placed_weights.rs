//! The weights of a decoder where its device wants them.

use std::sync::Arc;

use terrace_kernels::{BiasedWeight, Linear, LinearShape, Ops, TableUse, Vector, WeightFormat};

use crate::adapter::{BranchedProduct, LayerProduct};
use crate::decoder::placed_product::{PlacedProduct, Placing};
use crate::decoder::{DecoderTensors, LayerTensors};
use crate::decoder_spec::DecoderSpec;
use crate::error::Error;
use crate::layer_spec::{AttentionSpec, FfnSpec, LayerSpec};

pub(super) struct PlacedWeights {
    pub embed: Arc<Linear>,
    pub layers: Vec<LayerWeights>,
    pub final_norm: Vector,
    /// Of the same weight as `embed` when tied, unless an adapter changes it.
    pub head: PlacedProduct,
    /// Frequencies of each of the spec's rotations.
    pub inv_freqs: Vec<Vector>,
}

pub(super) struct LayerWeights {
    pub attention_norm: Vector,
    /// Queries, keys and values side by side.
    pub qkv: PlacedProduct,
    pub query_norm: Option<Vector>,
    pub key_norm: Option<Vector>,
    pub output: PlacedProduct,
    pub ffn_norm: Vector,
    pub gate_up: PlacedProduct,
    pub down: PlacedProduct,
}

impl PlacedWeights {
    /// `progress` is called after each layer.
    pub fn place(
        spec: &DecoderSpec,
        tensors: DecoderTensors,
        ops: &Ops,
        mut progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let placing = Placing { ops, spec, adapter: tensors.adapter.as_deref() };
        let table = tensors.embed.clone();
        // What an adapter changes of a table that scores too is the head alone.
        let head = tensors.head.or_else(|| placing.merges_into_head(&table).then(|| table.clone()));
        let used = match head {
            Some(_) => TableUse::LookUp,
            None => TableUse::LookUpAndScore,
        };
        let embed = Arc::new(ops.place_table(tensors.embed, used)?);
        let head = match head {
            Some(weight) => {
                placing.stacked([(BranchedProduct::Head, BiasedWeight { weight, bias: None })])?
            }
            None => placing.tied_head(table, &embed)?,
        };
        let mut layers = Vec::with_capacity(tensors.layers.len());
        for (index, layer) in tensors.layers.into_iter().enumerate() {
            layers.push(LayerWeights::place(index, layer, placing)?);
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
            let mut product = |shape| random(shape).map(PlacedProduct::plain);
            layers.push(LayerWeights {
                attention_norm: norm()?,
                qkv: product(plain(query + 2 * key, hidden))?,
                query_norm: None,
                key_norm: None,
                output: product(plain(hidden, query))?,
                ffn_norm: norm()?,
                gate_up: product(LinearShape { gated: true, ..plain(2 * ffn.width, hidden) })?,
                down: product(plain(hidden, ffn.width))?,
            });
            progress();
        }
        let used = if spec.tied_head { TableUse::LookUpAndScore } else { TableUse::LookUp };
        let scores = plain(spec.vocab, hidden);
        let embed = Arc::new(random(LinearShape { table: Some(used), ..scores })?);
        let head = match spec.tied_head {
            true => PlacedProduct::of_table(&embed),
            false => PlacedProduct::plain(random(scores)?),
        };
        let (final_norm, inv_freqs) = (norm()?, inv_freqs(spec, ops)?);
        Ok(PlacedWeights { embed, layers, final_norm, head, inv_freqs })
    }

    /// Passes the ops the order in which a step uses the matrices.
    pub fn link(&self, ops: &Ops) {
        ops.link(&self.step_products().map(|product| &*product.linear).collect::<Vec<_>>());
    }

    /// Bytes of all matrices.
    pub fn bytes(&self) -> usize {
        let is_tied = Arc::ptr_eq(&self.embed, &self.head.linear);
        self.step_bytes() + if is_tied { 0 } else { self.embed.bytes() }
    }

    /// Bytes of the matrices that a step reads whole.
    pub fn step_bytes(&self) -> usize {
        self.step_products().map(PlacedProduct::bytes).sum()
    }

    /// Branches that are computed beside their products.
    pub fn branches(&self) -> usize {
        self.step_products().map(PlacedProduct::branches).sum()
    }

    /// Of the widest branch; 0 without one.
    pub fn rank(&self) -> usize {
        self.step_products().map(PlacedProduct::rank).max().unwrap_or(0)
    }

    /// The products that a step computes, in its order.
    fn step_products(&self) -> impl Iterator<Item = &PlacedProduct> {
        let layers = self.layers.iter();
        layers
            .flat_map(|layer| [&layer.qkv, &layer.output, &layer.gate_up, &layer.down])
            .chain([&self.head])
    }
}

fn inv_freqs(spec: &DecoderSpec, ops: &Ops) -> Result<Vec<Vector>, terrace_kernels::Error> {
    spec.ropes.iter().map(|rope| ops.place_vector(&rope.inv_freq)).collect()
}

impl LayerWeights {
    fn place(index: usize, layer: LayerTensors, placing: Placing<'_>) -> Result<Self, Error> {
        let ops = placing.ops;
        let norm = |norm: Option<Vec<f32>>| norm.map(|norm| ops.place_vector(&norm)).transpose();
        let of = |product, biased| (BranchedProduct::Layer(index, product), biased);
        let LayerTensors { query, key, value, output, gate, up, down, .. } = layer;
        Ok(LayerWeights {
            attention_norm: ops.place_vector(&layer.attention_norm)?,
            qkv: placing.stacked([
                of(LayerProduct::Query, query),
                of(LayerProduct::Key, key),
                of(LayerProduct::Value, value),
            ])?,
            query_norm: norm(layer.query_norm)?,
            key_norm: norm(layer.key_norm)?,
            output: placing.stacked([of(LayerProduct::Output, output)])?,
            ffn_norm: ops.place_vector(&layer.ffn_norm)?,
            gate_up: placing.gated([of(LayerProduct::Gate, gate), of(LayerProduct::Up, up)])?,
            down: placing.stacked([of(LayerProduct::Down, down)])?,
        })
    }
}
