//! What one HSTU layer computes; the three published kinds are three ways to fill this in.

use terrace_kernels::{GatedForm, NormExtent};

#[derive(Clone, Debug, PartialEq)]
pub struct HstuLayerSpec {
    pub hidden: usize,
    pub heads: usize,
    /// Of queries and keys.
    pub key_dim: usize,
    /// Of values, and of the gate U.
    pub value_dim: usize,
    pub eps: f32,
    pub activated: Activated,
    /// What products of queries and keys are multiplied by.
    pub score_scale: f32,
    /// What sums over keys are divided by: the same in every step, so that what is cached agrees
    /// with what is computed.
    pub divisor: f32,
    pub gated: GatedForm,
    pub norm_extent: NormExtent,
    /// Whether the result is added to the input.
    pub residual: bool,
}

/// Which parts of the projection go through SiLU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activated {
    All,
    /// The gate U alone.
    Gate,
}

impl HstuLayerSpec {
    /// Of recsys-examples: SiLU on all parts, one norm over all heads.
    pub fn nvidia(hidden: usize, heads: usize, head_dim: usize, divisor: f32) -> Self {
        HstuLayerSpec {
            hidden,
            heads,
            key_dim: head_dim,
            value_dim: head_dim,
            eps: 1e-5,
            activated: Activated::All,
            score_scale: 1.0 / (head_dim as f32).sqrt(),
            divisor,
            gated: GatedForm::Gated,
            norm_extent: NormExtent::AllHeads,
            residual: true,
        }
    }

    /// Of generative-recommenders' STU: SiLU on the gate alone, and the output projection sees
    /// gate, attention and both together.
    pub fn stu(
        hidden: usize,
        heads: usize,
        [key_dim, value_dim]: [usize; 2],
        divisor: f32,
    ) -> Self {
        HstuLayerSpec {
            value_dim,
            eps: 1e-6,
            activated: Activated::Gate,
            gated: GatedForm::WithAttention,
            ..Self::nvidia(hidden, heads, key_dim, divisor)
        }
    }

    /// Of generative-recommenders' research models: scores are not scaled, norms have no weights,
    /// and scores get a bias by position and time.
    pub fn sequential(
        hidden: usize,
        heads: usize,
        [key_dim, value_dim]: [usize; 2],
        divisor: f32,
    ) -> Self {
        HstuLayerSpec {
            value_dim,
            eps: 1e-6,
            score_scale: 1.0,
            ..Self::nvidia(hidden, heads, key_dim, divisor)
        }
    }

    /// Columns of U and of V.
    pub fn value_width(&self) -> usize {
        self.heads * self.value_dim
    }

    /// Columns of Q and of K.
    pub fn key_width(&self) -> usize {
        self.heads * self.key_dim
    }

    /// Columns of the projection: U, V, Q, K.
    pub fn uvqk_width(&self) -> usize {
        2 * (self.value_width() + self.key_width())
    }

    /// Weights of the output norm, and biases.
    pub fn output_norm_width(&self) -> usize {
        match self.norm_extent {
            NormExtent::AllHeads => self.value_width(),
            NormExtent::EachHead { heads } => heads,
        }
    }

    /// Columns that the output projection takes.
    pub fn gated_width(&self) -> usize {
        self.gated.parts() * self.value_width()
    }
}
