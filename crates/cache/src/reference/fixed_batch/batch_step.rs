//! What a fixed batch is given in a step, and what comes out.

use crate::TokenId;
use crate::policy::TokenText;

/// query `[rows][heads][tokens][head_dim]`, keys and values `[rows][kv_heads][tokens][head_dim]`,
/// ids `[rows][tokens]`.
#[derive(Clone, Copy)]
pub struct BatchCall<'a> {
    pub tokens: usize,
    pub query: &'a [f32],
    pub keys: &'a [f32],
    pub values: &'a [f32],
    pub ids: &'a [TokenId],
    pub text: Option<&'a dyn TokenText>,
}

#[derive(Clone, Debug)]
pub struct BatchStep {
    /// `[rows][tokens][heads][head_dim]`
    pub out: Vec<f32>,
    /// `[rows][kv_heads][tokens]`: the slots that were chosen. With a grace period those that the
    /// oldest of the ring move to.
    pub slots: Vec<u32>,
    /// `[rows][kv_heads][filled]`
    pub weights: Vec<f32>,
}
