//! One layer's weights, as the layer's passes want them.

use terrace_kernels::{Activation, TuneOps};
use terrace_model::{AttentionSpec, FfnSpec, LayerSpec};

use super::parameter::{Change, VectorParameter};
use super::projection::Projection;
use crate::error::Error;

pub(crate) struct LayerWeights {
    pub dims: LayerDims,
    pub attention_norm: VectorParameter,
    pub query: Projection,
    pub key: Projection,
    pub value: Projection,
    pub query_norm: Option<VectorParameter>,
    pub key_norm: Option<VectorParameter>,
    pub output: Projection,
    pub ffn_norm: VectorParameter,
    pub gate: Projection,
    pub up: Projection,
    pub down: Projection,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LayerDims {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub window: Option<usize>,
    pub activation: Activation,
}

impl LayerDims {
    pub fn of(spec: &LayerSpec) -> Self {
        let AttentionSpec::GroupedQuery(attention) = &spec.attention;
        let FfnSpec::Gated(ffn) = &spec.ffn;
        LayerDims {
            heads: attention.heads,
            kv_heads: attention.kv_heads,
            head_dim: attention.head_dim,
            window: attention.window,
            activation: ffn.activation,
        }
    }
}

impl LayerWeights {
    pub fn change(&mut self, ops: &TuneOps<'_>, f: &mut Change<'_>) -> Result<(), Error> {
        let norms = [&mut self.attention_norm, &mut self.ffn_norm].into_iter();
        let norms = norms.chain(&mut self.query_norm).chain(&mut self.key_norm);
        for norm in norms {
            norm.change(ops, f)?;
        }
        let LayerWeights { query, key, value, output, gate, up, down, .. } = self;
        for projection in [query, key, value, output, gate, up, down] {
            projection.change(ops, f)?;
        }
        Ok(())
    }
}
