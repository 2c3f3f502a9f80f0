//! The loss of cases that nothing is learnt of.

use terrace_kernels::Ops;

use super::rank_gradients::Passes;
use crate::data::{CaseBatch, CaseSource};
use crate::error::Error;

/// The cases of a validation, in batches.
pub(crate) struct Validation<'a> {
    pub source: &'a dyn CaseSource,
    /// Numbers of cases, of similar length in each batch.
    pub batches: &'a [Vec<usize>],
}

pub(crate) struct ValidationLoss {
    /// The mean of all cases.
    pub loss: f64,
    pub cases: usize,
}

impl Validation<'_> {
    /// `step` is called after each batch.
    pub fn run(
        &self,
        passes: &Passes<'_>,
        ops: &Ops,
        step: &mut dyn FnMut(),
    ) -> Result<ValidationLoss, Error> {
        let ops = ops.tuning()?;
        let (mut sum, mut cases) = (0.0, 0);
        for numbers in self.batches {
            let read = numbers.iter().map(|number| self.source.case(*number));
            let batch = CaseBatch::of(&read.collect::<Result<Vec<_>, _>>()?);
            // Each time the same chunks, so that losses can be compared.
            let loss = passes.with((0, ops), &batch, 0, |pass| pass.loss(&batch.batch()))?;
            sum += loss * numbers.len() as f64;
            cases += numbers.len();
            step();
        }
        Ok(ValidationLoss { loss: sum / cases.max(1) as f64, cases })
    }
}
