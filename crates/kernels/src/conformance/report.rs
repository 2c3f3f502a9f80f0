//! What a conformance run found.

use std::collections::BTreeMap;
use std::fmt;

use half::f16;
use terrace_device::DType;

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

/// How far a number may be from what is wanted, relative to it, or to the least number that its
/// type has all digits of.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    relative: f64,
    least: f32,
}

impl From<f64> for Limit {
    /// For results in f32.
    fn from(relative: f64) -> Self {
        Limit { relative, least: f32::MIN_POSITIVE }
    }
}

impl Limit {
    /// For results of a type: what f32 is held to, or two roundings to a half-width type.
    pub(super) fn of(dtype: DType, in_f32: f64) -> Self {
        match dtype {
            DType::F32 => in_f32.into(),
            DType::F16 => Limit { relative: 1.0 / 1024.0, least: f16::MIN_POSITIVE.to_f32() },
            _ => Limit::from(1.0 / 256.0),
        }
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
        limit: impl Into<Limit>,
        got: &[f32],
        want: &[f32],
    ) {
        let Limit { relative: tolerance, least } = limit.into();
        let error = error(got, want, |want| want.abs().max(least));
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
