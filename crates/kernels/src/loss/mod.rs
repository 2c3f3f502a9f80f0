//! Losses, and where their gradients begin.

pub(crate) mod cross_entropy;
