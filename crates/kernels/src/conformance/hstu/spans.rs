//! What the rows of a random step see.

use crate::hstu::attention::RowSpan;
use crate::random::SplitMix;

#[derive(Clone, Copy, Debug)]
pub(super) enum Mask {
    /// All before a row, and itself.
    Causal,
    /// The last so many of those.
    Window(usize),
    /// Any range of those.
    Random,
    /// All of the history, what comes after a row included.
    Whole,
}

/// How much of a group of candidates, which are neighbours, each of them sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups {
    pub size: usize,
    pub causal: bool,
}

impl Mask {
    pub(super) fn random(random: &mut SplitMix) -> Mask {
        match random.below(4) {
            0 => Mask::Causal,
            1 => Mask::Window(1 + random.below(100)),
            2 => Mask::Random,
            _ => Mask::Whole,
        }
    }

    /// Of every row of a sequence, the candidates last.
    pub(super) fn spans(
        self,
        groups: Groups,
        [history, candidates]: [usize; 2],
        random: &mut SplitMix,
    ) -> Vec<RowSpan> {
        let rows = (0..history).map(|row| {
            let history = match self {
                Mask::Causal => 0..row + 1,
                Mask::Window(length) => (row + 1).saturating_sub(length)..row + 1,
                Mask::Random => {
                    let end = random.below(row + 2);
                    random.below(end + 1)..end
                }
                Mask::Whole => 0..history,
            };
            RowSpan { history, candidates: 0..0 }
        });
        let mut spans: Vec<RowSpan> = rows.collect();
        for candidate in 0..candidates {
            let seen = match self {
                Mask::Window(length) => history.saturating_sub(length)..history,
                Mask::Random => random.below(history + 1)..history,
                Mask::Causal | Mask::Whole => 0..history,
            };
            let start = candidate / groups.size * groups.size;
            let end = if groups.causal { candidate + 1 } else { start + groups.size };
            spans.push(RowSpan { history: seen, candidates: start..end.min(candidates) });
        }
        spans
    }
}
