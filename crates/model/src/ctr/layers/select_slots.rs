//! The vectors of some slots, one after the other.

use std::ops::Range;

use terrace_device::{View, ViewMut};
use terrace_kernels::Ops;

use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::error::Error;

pub(super) struct SelectSlots {
    pub slots: Vec<usize>,
}

impl SelectSlots {
    /// The columns of slots that follow each other, with vectors of `dim` numbers.
    pub fn runs(&self, dim: usize) -> Vec<Range<usize>> {
        let runs = self.slots.chunk_by(|a, b| a + 1 == *b);
        runs.map(|run| run[0] * dim..(run[run.len() - 1] + 1) * dim).collect()
    }
}

impl CtrCompute for SelectSlots {
    fn place(&self, placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        Ok(Box::new(PlacedRuns { runs: self.runs(placing.bottoms[0].last()) }))
    }
}

struct PlacedRuns {
    runs: Vec<Range<usize>>,
}

impl PlacedCtrLayer for PlacedRuns {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        let mut rest = tops[0].reborrow();
        for run in &self.runs {
            let [_, columns] = rest.dims();
            let [to, others] = rest.split_columns([run.len(), columns - run.len()]);
            ops.arrange(bottoms[0].columns(run.start, run.len()), to);
            rest = others;
        }
    }
}
