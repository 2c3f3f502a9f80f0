//! What the head's part of a batch's passes is given.

use terrace_kernels::TuneOps;

use crate::batch::Batch;
use crate::checkpoints::StoredRows;
use crate::loss_factors::LossMean;
use crate::model::{Gradients, TunedModel};

#[derive(Clone, Copy)]
pub(crate) struct HeadPass<'a> {
    pub ops: TuneOps<'a>,
    pub model: &'a TunedModel,
    pub batch: &'a Batch<'a>,
    pub loss_mean: LossMean,
    pub logits_most: usize,
}

/// Where gradients go.
pub(crate) struct HeadGradients<'a> {
    /// Of all positions' outputs, of which those that the head was given are written.
    pub d_outputs: &'a mut StoredRows,
    pub gradients: &'a mut Gradients,
}

/// Rows of outputs that the head is given at a time.
const ROWS: usize = 1024;

impl HeadPass<'_> {
    /// Positions of each sequence that are taken at a time.
    pub fn step(&self) -> usize {
        (ROWS / self.batch.seqs).max(1)
    }
}
