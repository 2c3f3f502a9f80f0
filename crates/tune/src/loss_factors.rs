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
    /// `[seqs, targets]`; 0 where there is no target.
    pub(crate) fn factors(self, batch: &Batch<'_>) -> Vec<f32> {
        let rows = || batch.targets.chunks_exact(batch.target_tokens());
        let counts: Vec<usize> =
            rows().map(|row| row.iter().filter(|target| **target >= 0).count()).collect();
        let all: usize = counts.iter().sum();
        let factor = |count: usize| match self {
            LossMean::Targets => 1.0 / all as f64,
            LossMean::Sequences => 1.0 / (batch.seqs * count) as f64,
        };
        let numbers = rows().zip(counts).flat_map(|(row, count)| {
            row.iter().map(move |target| if *target < 0 { 0.0 } else { factor(count) as f32 })
        });
        numbers.collect()
    }
}
