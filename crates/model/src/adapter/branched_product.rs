//! Which product of a decoder a branch belongs to, and what PEFT calls that.

use std::fmt;

use crate::decoder_spec::DecoderSpec;
use crate::families::TensorNames;
use crate::layer_spec::{AttentionSpec, FfnSpec};

/// A product that may have a branch, in the order in which a decoder computes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BranchedProduct {
    Layer(usize, LayerProduct),
    /// What scores the vocabulary.
    Head,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerProduct {
    Query,
    Key,
    Value,
    /// Attention's.
    Output,
    Gate,
    Up,
    Down,
}

/// Adapters name modules of the published model, whatever file its weights come from.
const NAMES: TensorNames = TensorNames::HUGGING_FACE;

impl LayerProduct {
    pub const ALL: [LayerProduct; 7] = [
        LayerProduct::Query,
        LayerProduct::Key,
        LayerProduct::Value,
        LayerProduct::Output,
        LayerProduct::Gate,
        LayerProduct::Up,
        LayerProduct::Down,
    ];

    /// The module's name in a layer, such as `self_attn.q_proj`.
    fn module(self) -> &'static str {
        match self {
            LayerProduct::Query => NAMES.query,
            LayerProduct::Key => NAMES.key,
            LayerProduct::Value => NAMES.value,
            LayerProduct::Output => NAMES.output,
            LayerProduct::Gate => NAMES.gate,
            LayerProduct::Up => NAMES.up,
            LayerProduct::Down => NAMES.down,
        }
    }
}

impl BranchedProduct {
    /// All products of a decoder.
    pub fn all(spec: &DecoderSpec) -> impl Iterator<Item = BranchedProduct> {
        let of_layer =
            |layer| LayerProduct::ALL.map(|product| BranchedProduct::Layer(layer, product));
        (0..spec.layers.len()).flat_map(of_layer).chain([BranchedProduct::Head])
    }

    /// The last part of the module's name, such as `q_proj`, which all layers share.
    pub fn short_name(self) -> &'static str {
        let module = match self {
            BranchedProduct::Layer(_, product) => product.module(),
            BranchedProduct::Head => NAMES.head,
        };
        module.rsplit('.').next().unwrap_or(module)
    }

    /// `[rows, columns]` of its weight; `None` where the decoder has no such layer.
    pub fn shape(self, spec: &DecoderSpec) -> Option<[usize; 2]> {
        let hidden = spec.hidden;
        let BranchedProduct::Layer(layer, product) = self else {
            return Some([spec.vocab, hidden]);
        };
        let layer = spec.layers.get(layer)?;
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        let FfnSpec::Gated(ffn) = &layer.ffn;
        Some(match product {
            LayerProduct::Query => [attention.query_width(), hidden],
            LayerProduct::Key | LayerProduct::Value => [attention.kv_width(), hidden],
            LayerProduct::Output => [hidden, attention.query_width()],
            LayerProduct::Gate | LayerProduct::Up => [ffn.width, hidden],
            LayerProduct::Down => [hidden, ffn.width],
        })
    }
}

/// The module's whole name, such as `model.layers.0.self_attn.q_proj`.
impl fmt::Display for BranchedProduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BranchedProduct::Layer(layer, product) => {
                f.write_str(&NAMES.in_layer(layer, product.module()))
            }
            BranchedProduct::Head => f.write_str(NAMES.head),
        }
    }
}
