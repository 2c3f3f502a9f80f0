//! An end before the last step, when validation gets no better.

use serde::{Deserialize, Serialize};

/// Validations in a row that may be no better than the best before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyStopping {
    pub patience: u64,
}

/// How validation has gone so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Validations {
    best: Option<f64>,
    /// Since the best one.
    worse: u64,
}

impl Validations {
    /// Whether this loss is the lowest so far.
    pub fn note(&mut self, loss: f64) -> bool {
        let is_best = loss.is_finite() && self.best.is_none_or(|best| loss < best);
        match is_best {
            true => *self = Validations { best: Some(loss), worse: 0 },
            false => self.worse += 1,
        }
        is_best
    }

    pub fn is_enough(&self, stopping: Option<EarlyStopping>) -> bool {
        stopping.is_some_and(|stopping| stopping.patience < self.worse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_when_it_gets_no_better_for_too_long() {
        let mut seen = Validations::default();
        let stopping = Some(EarlyStopping { patience: 1 });
        let mut after = |loss| {
            seen.note(loss);
            (seen.is_enough(stopping), seen.is_enough(None))
        };
        assert_eq!(after(3.0), (false, false));
        assert_eq!(after(3.5), (false, false));
        assert_eq!(after(2.9), (false, false));
        assert_eq!(after(2.9), (false, false), "as good is no better");
        assert_eq!(after(f64::NAN), (true, false));
    }
}
