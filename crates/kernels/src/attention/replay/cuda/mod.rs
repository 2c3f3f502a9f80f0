//! Attention over replayed slots on a GPU: on Hopper by its tensor cores for half-width heads of
//! 64 and 128 numbers, else in f32.
//!
//! query, keys and values of slots, out: act · log_sums, weights and all gradients: f32, of the
//! shapes that [`replay`](super) has on the CPU. Slots and positions are dense.

mod gradient_scratch;
mod hopper;
mod plain;
mod replay_step;
mod rows;

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{BufferPool, DType, View, ViewMut};

use self::hopper::HopperKernels;
use self::plain::PlainKernels;
use self::replay_step::check_dense;
use self::rows::RowKernels;
use super::args::{ChunkAt, KeptRows, ReplayGradients, ReplayQueries, RowGradients};
use crate::error::Error;

pub(crate) struct ReplayKernels {
    activation: DType,
    rows: RowKernels,
    plain: PlainKernels,
    /// One for each width of heads, if any.
    hopper: Vec<HopperKernels>,
}

impl ReplayKernels {
    /// Widest head.
    pub(crate) const MAX_HEAD_DIM: usize = plain::MAX_HEAD_DIM;

    pub(crate) fn load(
        device: &Arc<CudaDevice>,
        activation: DType,
        on_hopper: bool,
    ) -> Result<Self, Error> {
        // In f32 all arithmetic is f32, which tensor cores do not have.
        let dims: &[usize] =
            if on_hopper && activation != DType::F32 { &hopper::DIMS } else { &[] };
        let hopper = dims.iter().map(|dim| HopperKernels::load(device, activation, *dim));
        Ok(ReplayKernels {
            activation,
            rows: RowKernels::load(device, activation)?,
            plain: PlainKernels::load(device, activation)?,
            hopper: hopper.collect::<Result<_, _>>()?,
        })
    }

    /// Those that take such queries, if any.
    fn hopper(&self, queries: &ReplayQueries<'_>) -> Option<&HopperKernels> {
        self.hopper.iter().find(|kernels| kernels.take(queries))
    }

    /// Writes the chunk's rows into their slots and keeps what was there.
    ///
    /// slots: i32 `[seqs * kv_heads, tokens]` · rows: act `[seqs * row_tokens, kv_heads * dim]` ·
    /// of_slots: act `[seqs * kv_heads, slots, dim]` · positions: i32 `[seqs * kv_heads, slots]`
    pub(crate) fn place_rows(
        &self,
        at: &ChunkAt,
        slots: View<'_>,
        rows: [View<'_>; 2],
        of_slots: [ViewMut<'_>; 2],
        positions: ViewMut<'_>,
        kept: KeptRows<'_>,
    ) {
        self.rows.place_rows(at, slots, rows, &of_slots, &positions, &kept);
    }

    /// Undoes [`place_rows`](Self::place_rows); the gradients in the slots become the rows', and
    /// the slots begin again with none.
    pub(crate) fn take_back_rows(
        &self,
        at: &ChunkAt,
        slots: View<'_>,
        kept: KeptRows<'_>,
        of_slots: [ViewMut<'_>; 2],
        positions: ViewMut<'_>,
        gradients: RowGradients<'_>,
    ) {
        self.rows.take_back_rows(at, slots, &kept, &of_slots, &positions, &gradients);
    }

    /// rows: act `[seqs * tokens, kv_heads * dim]` · positions: i32 `[seqs * kv_heads, slots]`,
    /// negative for none · out: act `[seqs * kv_heads, slots, dim]`, zeros where there is none
    pub(crate) fn gather_slots(&self, rows: View<'_>, positions: View<'_>, out: ViewMut<'_>) {
        self.rows.gather_slots(rows, positions, &out);
    }

    /// out: act `[seqs * row_tokens, heads * dim]` · log_sums: f32 `[seqs * row_tokens, heads]`;
    /// the chunk's rows are written
    pub(crate) fn attend(
        &self,
        queries: ReplayQueries<'_>,
        out: ViewMut<'_>,
        log_sums: ViewMut<'_>,
    ) {
        let at = queries.at;
        at.check_rows(out.as_view(), at.heads, "out");
        assert_eq!(out.dtype(), self.activation, "type of out");
        assert_eq!(log_sums.dims(), [at.seqs * at.row_tokens, at.heads], "log_sums of attend");
        check_dense(log_sums.as_view(), "log_sums");
        let log_sums = log_sums.device_address();
        match self.hopper(&queries).filter(|_| HopperKernels::take_out(out.as_view())) {
            Some(kernels) => kernels.attend(&queries, &out, log_sums),
            None => self.plain.attend(&queries, &out, log_sums),
        }
    }

    /// weights: f32 `[seqs * kv_heads, filled]`, written: for each slot the weights of all queries,
    /// the mean over the heads that share it · log_sums: as [`attend`](Self::attend) left them
    pub(crate) fn weight_sums(
        &self,
        queries: ReplayQueries<'_>,
        log_sums: View<'_>,
        weights: ViewMut<'_>,
    ) {
        let (at, filled) = (queries.at, queries.slots.filled);
        assert_eq!(weights.dims(), [at.seqs * at.kv_heads, filled], "weights of weight_sums");
        assert_eq!(log_sums.dims(), [at.seqs * at.row_tokens, at.heads], "log_sums of weight_sums");
        check_dense(weights.as_view(), "weights");
        check_dense(log_sums, "log_sums");
        match self.hopper(&queries) {
            Some(kernels) => kernels.weight_sums(&queries, log_sums, &weights),
            None => self.plain.weight_sums(&queries, log_sums, &weights),
        }
    }

    /// `d_query` of the chunk is written, gradients of slots are added to; works in memory of the
    /// pool.
    pub(crate) fn attend_gradients(
        &self,
        args: ReplayGradients<'_>,
        scratch: &BufferPool,
    ) -> Result<(), Error> {
        args.check();
        assert_eq!(args.out.dtype(), self.activation, "type of out");
        let d_rows = [args.d_out.dtype(), args.d_query.dtype()];
        assert_eq!(d_rows, [DType::F32; 2], "types of gradients of rows");
        check_dense(args.log_sums, "log_sums");
        check_dense(args.d_keys.as_view(), "d_keys");
        check_dense(args.d_values.as_view(), "d_values");
        match self.hopper(&args.queries).filter(|_| HopperKernels::take_gradients(&args)) {
            Some(kernels) => kernels.attend_gradients(&args, scratch),
            None => self.plain.attend_gradients(&args, scratch),
        }
    }
}
