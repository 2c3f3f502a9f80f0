//! What one token's memory to work in is made of, in f32.

use terrace_device::DType;

use crate::attention::attend_args::AttendScratch;
use crate::pages::slot_layout::SlotLayout;

/// Its queries, the re-rotated ones, and four numbers about each head's softmax.
pub(crate) struct ScratchColumns {
    queries: usize,
    heads: usize,
}

impl ScratchColumns {
    pub(crate) fn new(layout: &SlotLayout, heads: usize) -> Self {
        ScratchColumns { queries: heads * layout.key_dim, heads }
    }

    /// Where the re-rotated queries begin.
    pub(super) fn rerotated(&self) -> usize {
        self.queries
    }

    /// Where the numbers about heads begin: at a multiple of 16 bytes.
    pub(super) fn stats(&self) -> usize {
        (2 * self.queries).next_multiple_of(4)
    }

    pub(super) fn all(&self) -> usize {
        self.stats() + 4 * self.heads
    }

    pub(crate) fn wanted(&self) -> AttendScratch {
        AttendScratch { dtype: DType::F32, columns: self.all() }
    }
}
