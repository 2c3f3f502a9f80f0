//! What a model is given of a sequence, and what it is asked.

use std::ops::Range;

use super::sequence_table::UserSequence;

/// What stays of a sequence that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// As the original does.
    First,
    Recent,
}

/// How sequences become samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRule {
    pub max_history: usize,
    pub max_candidates: usize,
    pub kept: Kept,
}

/// A history, and the items behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    pub user: i64,
    pub context: Vec<i64>,
    pub items: Vec<i64>,
    pub actions: Vec<i64>,
    pub candidates: Vec<i64>,
    /// What was done with each candidate.
    pub labels: Vec<i64>,
}

impl SampleRule {
    /// The sequence is cut to as many items as history and candidates may have; the last of these
    /// are candidates.
    pub fn sample(&self, sequence: UserSequence) -> Sample {
        let history = self.history(sequence.items.len());
        let cut = |list: Vec<i64>| -> (Vec<i64>, Vec<i64>) {
            // Actions are not always read.
            let Some(kept) = list.get(history.clone()) else { return (Vec::new(), Vec::new()) };
            let behind = list[history.end..].iter().take(self.max_candidates);
            (kept.to_vec(), behind.copied().collect())
        };
        let (items, candidates) = cut(sequence.items);
        let (actions, labels) = cut(sequence.actions);
        let (user, context) = (sequence.user, sequence.context);
        Sample { user, context, items, actions, candidates, labels }
    }

    /// Which of so many items are the history; the candidates follow it.
    pub fn history(&self, items: usize) -> Range<usize> {
        let kept = items.min(self.max_history + self.max_candidates);
        let start = match self.kept {
            Kept::First => 0,
            Kept::Recent => items - kept,
        };
        start..start + kept.saturating_sub(self.max_candidates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples() {
        let sample = |max_history, kept| {
            let sequence = UserSequence {
                items: (0..7).collect(),
                actions: (10..17).collect(),
                ..UserSequence::default()
            };
            let sample = SampleRule { max_history, max_candidates: 2, kept }.sample(sequence);
            assert_eq!(sample.actions.len(), sample.items.len());
            assert_eq!(sample.labels.len(), sample.candidates.len());
            [sample.items, sample.candidates, sample.labels]
        };
        assert_eq!(sample(3, Kept::First), [vec![0, 1, 2], vec![3, 4], vec![13, 14]]);
        assert_eq!(sample(3, Kept::Recent), [vec![2, 3, 4], vec![5, 6], vec![15, 16]]);
        assert_eq!(sample(50, Kept::First), [vec![0, 1, 2, 3, 4], vec![5, 6], vec![15, 16]]);
        assert_eq!(sample(50, Kept::Recent), sample(50, Kept::First));
    }
}
