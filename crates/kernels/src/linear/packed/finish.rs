//! What becomes of the products of a call.

use crate::elementwise::gate::Activation;

#[derive(Clone, Copy)]
pub(crate) enum Finish {
    /// The parts' products lie side by side.
    SideBySide,
    /// There are two parts: `out = activation(first) * second`.
    Gated(Activation),
}
