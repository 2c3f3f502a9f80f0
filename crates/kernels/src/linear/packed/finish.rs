//! What becomes of the products of a call.

use crate::ctr::activation::CtrActivation;
use crate::elementwise::gate::Activation;

#[derive(Clone, Copy)]
pub(crate) enum Finish {
    /// The parts' products lie side by side, through a function of each number if there is one.
    SideBySide(Option<CtrActivation>),
    /// There are two parts: `out = activation(first) * second`.
    Gated(Activation),
}
