//! What each row of a sequence sees, for all masks of HSTU.
//!
//! A sequence is its history, of which the first tokens may be context, and then candidates. Rows
//! have ids: the context's are all 0, what follows counts up from 1. Without context they count
//! from 0. A row sees itself and the rows of smaller ids (of other ids, if not causal), with a
//! window those that are at most so much smaller. Rows of context see the whole history.
//! Candidates see of each other what is before them in their own group.

use std::ops::Range;

use terrace_kernels::RowSpan;

/// The rule; how long the parts of a sequence are is in [`SequenceParts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskSpec {
    pub causal: bool,
    /// The largest distance of ids that a row sees.
    pub window: Option<usize>,
    /// So many ids at the history's end ignore the window.
    pub full_tail: usize,
    pub candidates: CandidateIds,
}

/// Which ids candidates have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateIds {
    /// All the one behind the history, so that windows begin at its end (Meta). Each candidate is a
    /// group of its own.
    Shared,
    /// Each its own, counted on (NVIDIA), in groups of so many.
    Own { group: usize },
}

/// How a sequence is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceParts {
    /// Tokens of context, which see the whole history; `None` where the model has no such rule.
    /// With a rule, ids of a sequence without context count from 1.
    pub context: Option<usize>,
    /// Context and what follows it, without candidates. If it is shorter than the context, which
    /// only data for tests is, candidates must have the shared id.
    pub history: usize,
    pub candidates: usize,
}

impl MaskSpec {
    /// Rows see what is before them; candidates see the history and themselves.
    pub const CAUSAL: MaskSpec = MaskSpec {
        causal: true,
        window: None,
        full_tail: 0,
        candidates: CandidateIds::Own { group: 1 },
    };

    /// Whether rows see all that is before them, and candidates only themselves of each other.
    pub fn is_plain(&self, parts: SequenceParts) -> bool {
        *self == MaskSpec::CAUSAL && parts.context.is_none()
    }

    /// What a row sees; candidates are counted from the sequence's first one.
    pub fn span(&self, parts: SequenceParts, row: usize) -> RowSpan {
        let ids = Ids::new(self, parts);
        let SequenceParts { history, candidates, .. } = parts;
        let id = ids.of(row);
        let window = match self.window {
            Some(_) if 0 < self.full_tail && ids.end - self.full_tail as i64 <= id => i64::MAX,
            Some(window) => window as i64,
            None => i64::MAX,
        };
        let is_context = parts.context.is_some() && id == 0;
        let seen = if is_context && 0 < ids.end {
            0..history
        } else if row < history {
            self.around(&ids, row, window)
        } else {
            ids.at_least(id.saturating_sub(window))..ids.at_least(id)
        };
        let among = match row.checked_sub(history) {
            Some(candidate) => self.group_of(candidate, candidates, window),
            // Only where later rows are seen: all candidates have one id then.
            None => {
                let sees = !self.causal && (ids.end - id) <= window;
                if sees { 0..candidates } else { 0..0 }
            }
        };
        RowSpan { history: seen, candidates: among }
    }

    /// What a row of the history sees of it.
    fn around(&self, ids: &Ids, row: usize, window: i64) -> Range<usize> {
        let id = ids.of(row);
        // Rows of the same id are not seen, unless by themselves.
        let start = ids.at_least(id.saturating_sub(window)).min(row);
        let start = if ids.at_least(id) < row { row } else { start };
        if self.causal {
            return start..row + 1;
        }
        start..ids.at_least(id.saturating_add(window).saturating_add(1)).max(row + 1)
    }

    fn group_of(&self, candidate: usize, candidates: usize, window: i64) -> Range<usize> {
        match self.candidates {
            CandidateIds::Shared => candidate..candidate + 1,
            CandidateIds::Own { group } => {
                let start = candidate / group * group;
                let window = usize::try_from(window).unwrap_or(usize::MAX);
                let end = if self.causal { candidate + 1 } else { (start + group).min(candidates) };
                start.max(candidate.saturating_sub(window))..end
            }
        }
    }
}

/// The ids of a sequence's rows: they never fall.
struct Ids {
    /// What is taken off a row's number.
    shift: i64,
    /// The id behind the history's last.
    end: i64,
    /// Where candidates have no ids of their own.
    caps: bool,
    history: usize,
}

impl Ids {
    fn new(mask: &MaskSpec, parts: SequenceParts) -> Self {
        let shift = parts.context.map_or(0, |context| context as i64 - 1);
        Ids {
            shift,
            end: parts.history as i64 - shift,
            caps: mask.candidates == CandidateIds::Shared,
            history: parts.history,
        }
    }

    fn of(&self, row: usize) -> i64 {
        let id = (row as i64 - self.shift).max(0);
        if self.caps { id.min(self.end) } else { id }
    }

    /// The first row of the history whose id is not below `id`, or its end.
    fn at_least(&self, id: i64) -> usize {
        if id <= self.of(0) {
            return 0;
        }
        usize::try_from(id + self.shift).unwrap_or(0).min(self.history)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The masks of the originals, element by element.
    fn allowed(mask: &MaskSpec, parts: SequenceParts, i: usize, j: usize) -> bool {
        let SequenceParts { context, history, .. } = parts;
        let shift = context.map_or(0, |context| context as i64 - 1);
        let end = history as i64 - shift;
        let id = |row: usize| {
            let id = row as i64 - shift;
            let id = if context.is_some() { id.max(0) } else { id };
            if mask.candidates == CandidateIds::Shared { id.min(end) } else { id }
        };
        let mut distance = id(i) - id(j);
        if !mask.causal {
            distance = distance.abs();
        }
        let mut sees = i == j || 0 < distance;
        if let CandidateIds::Own { group } = mask.candidates
            && history <= i
            && history <= j
        {
            sees &= (i - history) / group == (j - history) / group;
        }
        if let Some(window) = mask.window {
            let is_full = 0 < mask.full_tail && end - mask.full_tail as i64 <= id(i);
            sees &= distance <= window as i64 || is_full;
        }
        sees || (context.is_some() && id(i) == 0 && id(j) < end && j < history)
    }

    #[test]
    fn spans_are_the_masks_of_the_originals() {
        let candidates = [CandidateIds::Shared, CandidateIds::Own { group: 1 }];
        let groups = [2, 3].map(|group| CandidateIds::Own { group });
        for candidate_ids in candidates.into_iter().chain(groups) {
            for (window, full_tail) in [(None, 0), (Some(1), 0), (Some(3), 0), (Some(2), 2)] {
                for context in [None, Some(0), Some(1), Some(2), Some(4)] {
                    for (history, candidates) in [(0, 2), (1, 0), (1, 1), (3, 4), (9, 5), (12, 0)] {
                        let lacks_context = history < context.unwrap_or(0);
                        if lacks_context && candidate_ids != CandidateIds::Shared {
                            continue;
                        }
                        let mask =
                            MaskSpec { causal: true, window, full_tail, candidates: candidate_ids };
                        check(&mask, SequenceParts { context, history, candidates });
                    }
                }
            }
        }
    }

    #[test]
    fn spans_of_rows_that_see_what_follows() {
        for window in [None, Some(2)] {
            let candidates = CandidateIds::Shared;
            let mask = MaskSpec { causal: false, window, full_tail: 0, candidates };
            for (history, candidates) in [(1, 0), (4, 0), (7, 3)] {
                check(&mask, SequenceParts { context: None, history, candidates });
            }
        }
    }

    fn check(mask: &MaskSpec, parts: SequenceParts) {
        let SequenceParts { history, candidates, .. } = parts;
        for i in 0..history + candidates {
            let span = mask.span(parts, i);
            for j in 0..history + candidates {
                let sees = match j.checked_sub(history) {
                    Some(candidate) => span.candidates.contains(&candidate),
                    None => span.history.contains(&j),
                };
                let want = allowed(mask, parts, i, j);
                assert_eq!(sees, want, "{mask:?} {parts:?} row {i} column {j}: {span:?}");
            }
        }
    }
}
