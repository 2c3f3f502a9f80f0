//! A rotation that follows the length of each sequence: what is not longer than a model was trained
//! for is read as it was trained, and what is longer is scaled by YaRN no more than it needs.
//!
//! The length that counts is the sequence's own, so that an output is the same in any batch: of a
//! prompt's tokens that of the whole prompt, of a generated token the tokens up to it. Keys must be
//! kept unrotated, because every step may rotate them otherwise.

use crate::context_rope::{ContextRope, TrainedRope};

#[derive(Clone, Debug, PartialEq)]
pub struct DynamicRope {
    trained: TrainedRope,
}

/// Lengths grow by this fraction of the trained one. With finer steps fewer prompts could share
/// what their common beginning left, which depends on the length; with coarser ones short texts
/// would be scaled for long ones.
const STEPS: usize = 8;

impl DynamicRope {
    pub fn new(trained: TrainedRope) -> Self {
        DynamicRope { trained }
    }

    pub(crate) fn trained(&self) -> &TrainedRope {
        &self.trained
    }

    /// The length that positions are scaled for, of a sequence with so many tokens.
    pub fn context_for(&self, tokens: usize) -> usize {
        let trained = self.trained.trained_tokens();
        let beyond = tokens.saturating_sub(trained);
        trained + beyond.next_multiple_of(trained.div_ceil(STEPS).max(1))
    }

    /// The rotation for such a length.
    pub fn rope(&self, context_tokens: usize) -> ContextRope {
        self.trained.yarn(context_tokens)
    }
}
