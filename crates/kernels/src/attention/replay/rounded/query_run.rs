//! Up to 32 queries of one head, one after the other, and what they see.

use crate::attention::replay::args::ReplayQueries;
use crate::attention::replay::visible::Visible;
use crate::cpu::lanes::Lanes;

#[derive(Clone, Copy)]
pub(super) struct QueryRun<'a> {
    pub(super) queries: &'a ReplayQueries<'a>,
    /// The chunk's token that is the first.
    pub(super) first: usize,
    pub(super) count: usize,
}

/// How much of 32 slots some queries see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    Whole,
    Part,
    Nothing,
}

impl Sight {
    /// bounds: of the first query and of the last · ends: the least and the largest position
    pub(super) fn of([first, last]: [[f32; 2]; 2], [least, largest]: [f32; 2]) -> Self {
        let ([first_oldest, first_newest], [last_oldest, last_newest]) = (first, last);
        if last_newest < least || largest < first_oldest {
            Sight::Nothing
        } else if last_oldest <= least && largest <= first_newest {
            Sight::Whole
        } else {
            Sight::Part
        }
    }
}

impl QueryRun<'_> {
    /// ends: the least and the largest position of the slots
    pub(super) fn sight(&self, ends: [f32; 2]) -> Sight {
        Sight::of([self.bounds(0), self.bounds(self.count - 1)], ends)
    }

    /// The oldest and the newest position that a query sees.
    #[inline(always)]
    pub(super) fn bounds(&self, query: usize) -> [f32; 2] {
        Visible::of(self.queries, self.first + query).bounds()
    }
}

/// Whether a position lies between the oldest and the newest that is seen.
pub(super) fn sees([oldest, newest]: [f32; 2], position: f32) -> bool {
    oldest <= position && position <= newest
}

/// `x`, or 0 in lanes whose position is not seen.
#[inline(always)]
pub(super) fn if_seen<L: Lanes>(
    lanes: L,
    x: L::Vector,
    [oldest, newest]: [L::Vector; 2],
    position: L::Vector,
) -> L::Vector {
    lanes.unless_less(lanes.unless_less(x, position, oldest), newest, position)
}
