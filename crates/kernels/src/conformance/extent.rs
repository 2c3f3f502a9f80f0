//! How much of a suite is run.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// A few cases of each op: for use under a checker of memory, where everything is slow.
    Quick,
}

impl Extent {
    /// One case of so many is run. Sizes and formats come in lists of other lengths, so each of
    /// them has its turn.
    pub(super) fn stride(self) -> usize {
        match self {
            Extent::Whole => 1,
            Extent::Quick => 7,
        }
    }
}
