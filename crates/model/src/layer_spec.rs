//! What one layer of a decoder is made of.
//!
//! Layers of one decoder may differ in every number here. An enum names what a layer computes, so
//! that the compiler finds every place where another kind must be thought of.

use terrace_kernels::Activation;

#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    pub attention: AttentionSpec,
    pub ffn: FfnSpec,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AttentionSpec {
    GroupedQuery(GroupedQuerySpec),
}

/// `heads` queries share `kv_heads` keys and values.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupedQuerySpec {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub scale: f32,
    /// Index into [`DecoderSpec::ropes`](crate::DecoderSpec::ropes).
    pub rope: usize,
    /// A key is visible iff it is less than this many positions back.
    pub window: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FfnSpec {
    Gated(GatedSpec),
}

/// `down(activation(gate(x)) * up(x))`
#[derive(Clone, Debug, PartialEq)]
pub struct GatedSpec {
    pub width: usize,
    pub activation: Activation,
}

impl LayerSpec {
    /// Columns of the widest row that a matrix of the layer is multiplied with.
    pub(crate) fn widest_input(&self) -> usize {
        let AttentionSpec::GroupedQuery(attention) = &self.attention;
        let FfnSpec::Gated(ffn) = &self.ffn;
        attention.query_width().max(ffn.width)
    }
}

impl AttentionSpec {
    /// How many positions back a query sees; `None` sees all.
    pub fn window(&self) -> Option<usize> {
        let AttentionSpec::GroupedQuery(attention) = self;
        attention.window
    }
}

impl GroupedQuerySpec {
    /// Columns of a token's queries, and of what attention makes of them.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Columns of a token's keys, and of its values.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}
