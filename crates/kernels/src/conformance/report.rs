//! What a conformance run found.

use std::collections::BTreeMap;
use std::fmt;

use super::Extent;

pub struct Report {
    pub cases: Vec<Case>,
    extent: Extent,
    /// How many cases of each op there were to run.
    offered: BTreeMap<&'static str, usize>,
}

/// One op on one size, dtype or format.
pub struct Case {
    pub op: &'static str,
    pub case: String,
    /// Largest difference, relative to what the op's numbers are made of; infinite for a NaN.
    pub error: f64,
    pub tolerance: f64,
}

impl Case {
    pub fn passed(&self) -> bool {
        self.error <= self.tolerance
    }
}

impl Report {
    pub(super) fn new(extent: Extent) -> Self {
        Report { cases: Vec::new(), extent, offered: BTreeMap::new() }
    }

    /// Whether the op's next case is left out. The first one never is.
    pub(super) fn skips(&mut self, op: &'static str) -> bool {
        let offered = self.offered.entry(op).or_default();
        *offered += 1;
        !(*offered - 1).is_multiple_of(self.extent.stride())
    }

    pub fn passed(&self) -> bool {
        self.cases.iter().all(Case::passed)
    }

    pub fn failures(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| !case.passed())
    }

    /// For ops that sum: relative to the largest number expected.
    pub(super) fn compare(
        &mut self,
        op: &'static str,
        case: String,
        tolerance: f64,
        got: &[f32],
        want: &[f32],
    ) {
        let largest = want.iter().fold(f32::MIN_POSITIVE, |most, x| most.max(x.abs()));
        let error = error(got, want, |_| largest);
        self.cases.push(Case { op, case, error, tolerance });
    }

    /// For ops that work number by number: relative to each number, or to the least normal one.
    pub(super) fn compare_each(
        &mut self,
        op: &'static str,
        case: String,
        tolerance: f64,
        got: &[f32],
        want: &[f32],
    ) {
        let error = error(got, want, |want| want.abs().max(f32::MIN_POSITIVE));
        self.cases.push(Case { op, case, error, tolerance });
    }

    /// For ops that only move bytes, or must give the same bits on every level.
    pub(super) fn compare_exactly<T: PartialEq>(
        &mut self,
        op: &'static str,
        case: String,
        got: &[T],
        want: &[T],
    ) {
        let error = if got == want { 0.0 } else { f64::INFINITY };
        self.cases.push(Case { op, case, error, tolerance: 0.0 });
    }
}

/// A line per op: cases, failures, and the case that came closest to its tolerance.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16} {:>5} {:>6} {:>9} {:>9}  case",
            "op", "cases", "failed", "error", "limit"
        )?;
        for cases in self.cases.chunk_by(|a, b| a.op == b.op) {
            let failed = cases.iter().filter(|case| !case.passed()).count();
            let nearness = |case: &Case| case.error / case.tolerance.max(f64::MIN_POSITIVE);
            let Some(worst) = cases.iter().max_by(|a, b| nearness(a).total_cmp(&nearness(b)))
            else {
                continue;
            };
            writeln!(
                f,
                "{:<16} {:>5} {failed:>6} {:>9.1e} {:>9.1e}  {}",
                worst.op,
                cases.len(),
                worst.error,
                worst.tolerance,
                worst.case
            )?;
        }
        Ok(())
    }
}

fn error(got: &[f32], want: &[f32], unit: impl Fn(f32) -> f32) -> f64 {
    if got.len() != want.len() {
        return f64::INFINITY;
    }
    let errors = got.iter().zip(want).map(|(got, want)| {
        let error = (f64::from(*got) - f64::from(*want)).abs() / f64::from(unit(*want));
        if error.is_nan() { f64::INFINITY } else { error }
    });
    errors.fold(0.0, f64::max)
}
