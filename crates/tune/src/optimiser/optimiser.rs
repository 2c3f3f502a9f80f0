//! What changes trained arrays by their gradients.

/// What is the same for all arrays of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptimiserStep {
    /// From 1 on.
    pub number: u64,
    pub learning_rate: f64,
}

/// Changes one array at a time; what it remembers of each is its own.
pub trait Optimiser: Send {
    /// `index`: which of the arrays it was made for · values, gradient: as many as that array has
    fn change(&mut self, index: usize, values: &mut [f32], gradient: &[f32], step: OptimiserStep);

    /// What it remembers, by name, of each array as many numbers as that has: a run saves it, and
    /// puts it back when it goes on.
    fn state(&mut self) -> Vec<(&'static str, &mut Vec<Vec<f32>>)>;
}

/// Zeros for each array.
pub(super) fn zeros(counts: &[usize]) -> Vec<Vec<f32>> {
    counts.iter().map(|count| vec![0.0; *count]).collect()
}
