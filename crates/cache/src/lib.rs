//! What is kept of a sequence: pages of keys and values, and who holds them.

/// A token of the model's vocabulary.
pub type TokenId = u32;
