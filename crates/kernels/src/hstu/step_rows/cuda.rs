//! Launches `step_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;

use super::StepRowsArgs;
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct StepRowsKernel {
    step_rows: TypedKernel<StepRowsParams>,
}

kernel_params! {
    /// Twin of `StepRowsParams` in `step_rows.cu`.
    struct StepRowsParams: 96 bytes {
        block_tables: u64,
        live_tables: u64,
        past_tokens: u64,
        live_starts: u64,
        history_rows: u64,
        row_seqs: u64,
        commit_slots: u64,
        spans: u64,
        positions: u64,
        rows: u32,
        seqs: u32,
        table_pages: u32,
        live_table_pages: u32,
        page_tokens: u32,
        position_rows: u32,
    }
}

const THREADS: usize = 256;

impl StepRowsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        Ok(StepRowsKernel { step_rows: TypedKernel::load(device, "step_rows", "i32")? })
    }

    pub(crate) fn step_rows(&self, args: &StepRowsArgs<'_>) {
        let [rows, seqs, table_pages, live_table_pages] = args.check();
        let params = StepRowsParams {
            block_tables: args.block_tables.device_address(),
            live_tables: args.live_tables.device_address(),
            past_tokens: args.past_tokens.device_address(),
            live_starts: args.live_starts.device_address(),
            history_rows: args.history_rows.device_address(),
            row_seqs: args.row_seqs.device_address(),
            commit_slots: args.commit_slots.device_address(),
            spans: args.spans.device_address(),
            positions: args.positions.device_address(),
            rows: extent(rows),
            seqs: extent(seqs),
            table_pages: extent(table_pages),
            live_table_pages: extent(live_table_pages),
            page_tokens: extent(args.page_tokens),
            position_rows: extent(args.position_rows),
        };
        // SAFETY: the shapes were just checked; that pages and starts are those of the sequences
        // is the caller's promise.
        unsafe { self.step_rows.launch([rows.div_ceil(THREADS), 1, 1], THREADS, &params) };
    }
}
