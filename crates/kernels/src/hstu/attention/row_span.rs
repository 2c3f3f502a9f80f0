//! What a row of HSTU attention sees.

use std::ops::Range;

/// Positions of the history, and candidates counted from the step's first one of the sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSpan {
    pub history: Range<usize>,
    pub candidates: Range<usize>,
}

impl RowSpan {
    /// As attention takes it: start and end of both.
    pub fn to_array(&self) -> [i32; 4] {
        let RowSpan { history, candidates } = self;
        [history.start, history.end, candidates.start, candidates.end]
            .map(|at| i32::try_from(at).expect("positions are 31 bits wide"))
    }

    pub(crate) fn of(array: &[i32]) -> Self {
        let at = |i: usize| usize::try_from(array[i]).unwrap_or_else(|_| panic!("span {array:?}"));
        RowSpan { history: at(0)..at(1), candidates: at(2)..at(3) }
    }
}
