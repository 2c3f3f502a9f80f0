//! The arguments of a gated product.

use terrace_device::{View, ViewMut};

use super::linear::Linear;
use super::row_kinds::RowKinds;
use crate::elementwise::gate::Activation;

/// `out = activation(gate(x)) * up(x)`
pub struct GatedArgs<'a> {
    /// act `[tokens, columns]`
    pub x: View<'a>,
    pub row_kinds: RowKinds<'a>,
    /// The gate's and the up product's, as `Ops::place_gated` gives them.
    pub weights: &'a Linear,
    pub activation: Activation,
    /// act `[tokens, 2 width]`: memory to work in.
    pub both: ViewMut<'a>,
    /// act `[tokens, width]`
    pub out: ViewMut<'a>,
}
