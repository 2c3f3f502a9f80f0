//! What each target's loss counts in the batch's.

use crate::batch::Batch;

/// How sums of losses become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossMean {
    /// Of all targets of the batch alike: sequences with many count more.
    Targets,
    /// Of the sequences, each by the mean of its own targets.
    Sequences,
}

impl LossMean {
    /// Of the sum of each sequence's losses; `counts`: of its targets. 0 where it has none.
    pub(crate) fn seq_factors(self, counts: &[usize]) -> Vec<f64> {
        let all: usize = counts.iter().sum();
        let factor = |count: &usize| match (self, *count) {
            (_, 0) => 0.0,
            (LossMean::Targets, _) => 1.0 / all as f64,
            (LossMean::Sequences, count) => 1.0 / (counts.len() * count) as f64,
        };
        counts.iter().map(factor).collect()
    }

    /// Of each target's loss, `[seqs, targets]`; 0 where there is no target.
    pub(crate) fn target_factors(self, batch: &Batch<'_>) -> Vec<f32> {
        let rows = || batch.targets.chunks_exact(batch.target_tokens());
        let counts: Vec<usize> =
            rows().map(|row| row.iter().filter(|target| **target >= 0).count()).collect();
        let rows = rows().zip(self.seq_factors(&counts));
        let numbers = rows.flat_map(|(row, factor)| {
            row.iter().map(move |target| if *target < 0 { 0.0 } else { factor as f32 })
        });
        numbers.collect()
    }
}
