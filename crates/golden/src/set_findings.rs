//! How far one set of golden data and what a device computed lie apart.

use std::fmt;

use crate::largest_difference::LargestDifference;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetFindings {
    pub set: &'static str,
    pub cases: usize,
    pub numbers: usize,
    /// Of all numbers, relative to those above 1.
    pub largest: LargestDifference,
    /// Largest difference that may pass.
    pub tolerance: f32,
    /// Where two scores were almost equal and the other token left: such a case ends there.
    pub close: Vec<String>,
    /// What is not as it should be.
    pub wrong: Vec<String>,
    /// What no op does, and why.
    pub left_out: Vec<String>,
}

impl SetFindings {
    /// What an independent implementation reached, summing in double precision.
    pub const TOLERANCE: f32 = 2e-6;
    /// What rounding a step's own rows to 8 bits before attention may change in outputs and scores:
    /// 2.1e-2 was measured over the golden runs.
    pub const ROUNDED_TOLERANCE: f32 = 3e-2;
    /// Scores nearer than this may be decided either way.
    pub const DECISION_SLACK: f32 = 1e-5;

    pub fn new(set: &'static str, tolerance: f32) -> Self {
        SetFindings { set, tolerance, ..SetFindings::default() }
    }

    pub fn passed(&self) -> bool {
        self.cases > 0 && self.wrong.is_empty() && self.largest.value <= self.tolerance
    }

    pub fn compare(&mut self, got: &[f32], want: &[f32], location: impl Fn() -> String) {
        if got.len() != want.len() {
            self.wrong.push(format!("{}: {} numbers, not {}", location(), got.len(), want.len()));
            return;
        }
        self.numbers += got.len();
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            let difference = (got - want).abs() / want.abs().max(1.0);
            let at = || format!("{} [{i}]: {got}, not {want}", location());
            self.largest.note(difference, at);
        }
    }

    /// Takes in what was found of one run. Where scores were so close that it may have decided
    /// otherwise, other numbers are no mistake.
    pub fn add(&mut self, run: SetFindings, min_score_gap: Option<f32>) {
        let is_far = self.tolerance < run.largest.value;
        if is_far && min_score_gap.is_some_and(|gap| gap < Self::DECISION_SLACK) {
            self.close.push(run.largest.location);
            return;
        }
        self.numbers += run.numbers;
        self.largest.join(run.largest);
        self.wrong.extend(run.wrong);
    }

    /// Gives whether they are equal.
    pub fn compare_exactly<T: PartialEq + fmt::Debug>(
        &mut self,
        got: &[T],
        want: &[T],
        location: impl Fn() -> String,
    ) -> bool {
        if got != want {
            self.wrong.push(format!("{}: {got:?}, not {want:?}", location()));
        }
        got == want
    }
}

impl fmt::Display for SetFindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SetFindings { set, cases, numbers, largest, .. } = self;
        let verdict = if self.passed() { "ok" } else { "WRONG" };
        write!(f, "{set:<10} {cases:>5} {numbers:>8} {:>18.1e}  {verdict}", largest.value)?;
        if !self.passed() {
            write!(f, "\n  worst: {}", largest.location)?;
        }
        for wrong in self.wrong.iter().take(8) {
            write!(f, "\n  wrong: {wrong}")?;
        }
        for close in &self.close {
            write!(f, "\n  almost equal scores: {close}")?;
        }
        for left_out in &self.left_out {
            write!(f, "\n  left out: {left_out}")?;
        }
        Ok(())
    }
}
