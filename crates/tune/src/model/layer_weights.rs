//! One layer's weights, as the layer's passes want them.

use terrace_kernels::{Activation, TuneOps};
use terrace_model::{AttentionSpec, FfnSpec, LayerProduct, LayerSpec};

use super::parameter::{Change, ParameterId, VectorParameter};
use super::projection::Projection;
use crate::error::Error;

pub(crate) struct LayerWeights {
    pub dims: LayerDims,
    pub attention_norm: VectorParameter,
    pub query_norm: Option<VectorParameter>,
    pub key_norm: Option<VectorParameter>,
    pub ffn_norm: VectorParameter,
    /// In the order of [`LayerProduct`]; either all weights are away, or none.
    pub products: [Projection; LayerProduct::ALL.len()],
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
    pub fn product(&self, product: LayerProduct) -> &Projection {
        &self.products[product as usize]
    }

    /// Whether its products' weights have to be brought to the device.
    pub fn is_away(&self) -> bool {
        self.products.iter().any(|projection| projection.base.linear.is_away())
    }

    /// Of the weights that are away those that are trained.
    pub fn trained_away(&self) -> impl Iterator<Item = ParameterId> {
        let away = self.products.iter().filter(|projection| projection.base.linear.is_away());
        away.filter_map(|projection| projection.base.id)
    }

    pub fn change(&mut self, ops: &TuneOps<'_>, f: &mut Change<'_>) -> Result<(), Error> {
        let norms = [&mut self.attention_norm, &mut self.ffn_norm].into_iter();
        let norms = norms.chain(&mut self.query_norm).chain(&mut self.key_norm);
        for norm in norms {
            norm.change(ops, f)?;
        }
        for projection in &mut self.products {
            projection.change(ops, f)?;
        }
        Ok(())
    }
}
