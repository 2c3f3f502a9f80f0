//! How large a step of HSTU attention is.

/// What the memory depends on that attention works in: counts that are known before a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HstuStepSize {
    pub tokens: usize,
    pub seqs: usize,
    /// Entries of a sequence's block table.
    pub table_pages: usize,
}
