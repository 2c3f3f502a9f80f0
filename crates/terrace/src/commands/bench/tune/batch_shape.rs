//! The shape of the batch that is learnt.

/// Sequences of a batch, and tokens of each.
pub type BatchShape = [usize; 2];
