//! What the rows of a step are, made on the device.

use terrace_device::{Buffer, DType, Device, View};
use terrace_kernels::{Ops, StepRowsArgs};

use crate::error::Error;

/// i32 arrays of as many rows as the largest step has.
pub(super) struct CudaRows {
    row_seqs: Buffer,
    commit_slots: Buffer,
    spans: Buffer,
    positions: Buffer,
}

/// The sequences of a step, as in `StepRowsArgs`.
pub(super) struct StepSeqs<'a> {
    pub block_tables: View<'a>,
    pub live_tables: View<'a>,
    pub past_tokens: View<'a>,
    pub live_starts: View<'a>,
    pub history_rows: View<'a>,
}

/// The rows of a step, as in `HstuKv`.
pub(super) struct RowViews<'a> {
    pub row_seqs: View<'a>,
    pub commit_slots: View<'a>,
    pub spans: View<'a>,
    pub positions: View<'a>,
}

/// Words of what a row sees.
const SPAN_WORDS: usize = 4;

impl CudaRows {
    pub fn new(device: &Device, rows: usize) -> Result<Self, Error> {
        let take = |words: usize| device.take(DType::I32.bytes() * words * rows, "rows of a step");
        Ok(CudaRows {
            row_seqs: take(1)?,
            commit_slots: take(1)?,
            spans: take(SPAN_WORDS)?,
            positions: take(1)?,
        })
    }

    /// Makes some rows, with pages of so many tokens and so many rows of the position table.
    pub fn make(
        &mut self,
        ops: &Ops,
        seqs: &StepSeqs<'_>,
        [rows, page_tokens, position_rows]: [usize; 3],
    ) {
        ops.step_rows(&StepRowsArgs {
            block_tables: seqs.block_tables,
            live_tables: seqs.live_tables,
            past_tokens: seqs.past_tokens,
            live_starts: seqs.live_starts,
            history_rows: seqs.history_rows,
            page_tokens,
            position_rows,
            row_seqs: self.row_seqs.view_mut(DType::I32, [rows]),
            commit_slots: self.commit_slots.view_mut(DType::I32, [rows]),
            spans: self.spans.view_mut(DType::I32, [rows, SPAN_WORDS]),
            positions: self.positions.view_mut(DType::I32, [rows]),
        });
    }

    pub fn views(&self, rows: usize) -> RowViews<'_> {
        RowViews {
            row_seqs: self.row_seqs.view(DType::I32, [rows]),
            commit_slots: self.commit_slots.view(DType::I32, [rows]),
            spans: self.spans.view(DType::I32, [rows, SPAN_WORDS]),
            positions: self.positions.view(DType::I32, [rows]),
        }
    }
}
