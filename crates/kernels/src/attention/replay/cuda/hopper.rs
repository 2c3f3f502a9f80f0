//! Launches `replay_attend.cu`, `replay_weights.cu`, `replay_gradients.cu` and
//! `replay_gradient_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{BufferPool, DType, View, ViewMut};

use super::gradient_scratch::GradientScratch;
use super::plain::{ReplayAttendParams, ReplayWeightsParams};
use super::replay_step::ReplayStep;
use crate::attention::replay::args::{ReplayGradients, ReplayQueries};
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

/// The kernels for half-width heads of so many numbers.
pub(super) struct HopperKernels {
    activation: DType,
    dim: usize,
    attend: TypedKernel<ReplayAttendParams>,
    weights: TypedKernel<ReplayWeightsParams>,
    gradients: TypedKernel<ReplayGradientParams>,
    /// Of gradients as f16 has them.
    largest: TypedKernel<ReplayGradientParams>,
    prepare: TypedKernel<ReplayGradientParams>,
    d_query: TypedKernel<ReplayGradientParams>,
}

kernel_params! {
    /// Twin of `ReplayGradientParams` in `replay_gradients.cuh`.
    struct ReplayGradientParams: 200 bytes {
        step: ReplayStep,
        out: u64,
        log_sums: u64,
        d_out: u64,
        d_query: u64,
        d_keys: u64,
        d_values: u64,
        query_images: u64,
        d_out_images: u64,
        stats: u64,
        sums: u64,
        maxima: u64,
        factor: u64,
        out_stride: u32,
        d_out_stride: u32,
        d_query_stride: u32,
        seqs: u32,
        tiles: u32,
    }
}

/// Widths of heads that there are kernels for.
pub(super) const DIMS: [usize; 2] = [64, 128];
/// Rows of a tile of queries, keys or values where results and weights are computed.
const TILE_ROWS: usize = 128;
/// Slots of a block that weighs them.
const WEIGHTS_SLOTS: usize = 256;
/// Tiles of queries on their way, there.
const WEIGHTS_STAGES: usize = 4;
/// Shared memory that a block can have.
const SHARED_MOST: usize = 227 * 1024;
/// Threads: of one warpgroup that brings tiles and two that compute, or four.
const THREADS: usize = 3 * 128;
const WEIGHTS_THREADS: usize = 5 * 128;
/// Threads of the kernels that go row by row.
const ROW_THREADS: usize = 256;
const D_QUERY_THREADS: usize = 128;
/// Tiles have numbers of 16 bits, of which the last stands for none.
const TILES_MOST: usize = 1 << 16;

impl HopperKernels {
    pub(super) fn load(
        device: &Arc<CudaDevice>,
        activation: DType,
        dim: usize,
    ) -> Result<Self, Error> {
        let variant = format!("{}_{dim}", activation.name());
        let rows = load(device, "replay_gradient_rows", &variant)?;
        let kernels = HopperKernels {
            activation,
            dim,
            attend: TypedKernel::load(device, "replay_attend", &variant)?,
            weights: TypedKernel::load(device, "replay_weights", &variant)?,
            gradients: TypedKernel::load(device, "replay_gradients", &variant)?,
            largest: TypedKernel::find(&rows, "replay_largest")?,
            prepare: TypedKernel::find(&rows, "replay_prepare")?,
            d_query: TypedKernel::find(&rows, "replay_d_query")?,
        };
        kernels.attend.allow_shared(SHARED_MOST)?;
        kernels.weights.allow_shared(kernels.weights_bytes())?;
        kernels.gradients.allow_shared(kernels.gradient_bytes())?;
        Ok(kernels)
    }

    /// Whether queries and slots can be copied 16 bytes at a time, and there is room for a list of
    /// the slots' tiles.
    pub(super) fn take(&self, queries: &ReplayQueries<'_>) -> bool {
        let ReplayQueries { at, query, slots, .. } = *queries;
        at.dim == self.dim
            && self.attend_bytes(slots.filled) <= SHARED_MOST
            && slots.filled.div_ceil(TILE_ROWS) < TILES_MOST
            && [query, slots.keys, slots.values].into_iter().all(fits_16)
    }

    /// Whether results can be written two at a time.
    pub(super) fn take_out(out: View<'_>) -> bool {
        fits_16(out)
    }

    /// Whether rows and their gradients can be read and written some at a time.
    pub(super) fn take_gradients(args: &ReplayGradients<'_>) -> bool {
        let [d_query, d_keys, d_values] =
            [&args.d_query, &args.d_keys, &args.d_values].map(|view| view.as_view());
        [args.out, args.d_out, d_query, d_keys, d_values].into_iter().all(fits_16)
    }

    /// out and log_sums as the caller has checked them
    pub(super) fn attend(&self, queries: &ReplayQueries<'_>, out: &ViewMut<'_>, log_sums: u64) {
        let at = queries.at;
        let params = ReplayAttendParams {
            step: ReplayStep::new(queries, self.activation),
            out: out.device_address(),
            log_sums,
            out_stride: extent(out.row_stride()),
        };
        let grid = [at.tokens.div_ceil(TILE_ROWS) * at.group_heads(), at.kv_heads, at.seqs];
        let shared = self.attend_bytes(queries.slots.filled);
        // SAFETY: `ReplayStep` and the caller have checked shapes and types.
        unsafe { self.attend.launch_shared(grid, THREADS, shared, &params) };
    }

    /// log_sums and weights as the caller has checked them
    pub(super) fn weight_sums(
        &self,
        queries: &ReplayQueries<'_>,
        log_sums: View<'_>,
        weights: &ViewMut<'_>,
    ) {
        let at = queries.at;
        let params = ReplayWeightsParams {
            step: ReplayStep::new(queries, self.activation),
            log_sums: log_sums.device_address(),
            weights: weights.device_address(),
        };
        let grid = [queries.slots.filled.div_ceil(WEIGHTS_SLOTS), at.kv_heads, at.seqs];
        let shared = self.weights_bytes();
        // SAFETY: `ReplayStep` and the caller have checked shapes and types.
        unsafe { self.weights.launch_shared(grid, WEIGHTS_THREADS, shared, &params) };
    }

    /// args as the caller has checked them
    pub(super) fn attend_gradients(
        &self,
        args: &ReplayGradients<'_>,
        pool: &BufferPool,
    ) -> Result<(), Error> {
        let (queries, at) = (&args.queries, args.queries.at);
        let size = GradientScratch::new(&at);
        let mut scratch = pool.take(size.bytes(), "gradients of attention")?;
        let scratch = scratch.buffer_mut().view_mut(DType::U8, [size.bytes()]);
        let parts = size.at(scratch.device_address());
        // bf16 has the range of gradients in f32.
        let is_scaled = self.activation == DType::F16;
        let params = ReplayGradientParams {
            step: ReplayStep::new(queries, self.activation),
            out: args.out.device_address(),
            log_sums: args.log_sums.device_address(),
            d_out: args.d_out.device_address(),
            d_query: args.d_query.device_address(),
            d_keys: args.d_keys.device_address(),
            d_values: args.d_values.device_address(),
            query_images: parts.query_images,
            d_out_images: parts.d_out_images,
            stats: parts.stats,
            sums: parts.sums,
            maxima: if is_scaled { parts.maxima } else { 0 },
            factor: parts.factor,
            out_stride: extent(args.out.row_stride()),
            d_out_stride: extent(args.d_out.row_stride()),
            d_query_stride: extent(args.d_query.row_stride()),
            seqs: extent(at.seqs),
            tiles: extent(size.tiles),
        };
        let tiles = [size.tiles, at.heads, at.seqs];
        let halves = [2 * size.tiles, at.heads, at.seqs];
        let slot_tiles = [queries.slots.filled.div_ceil(TILE_ROWS), at.kv_heads, at.seqs];
        let shared = self.gradient_bytes();
        // SAFETY: `ReplayStep` and the caller have checked shapes and types; scratch has room for
        // all parts, and the stream's order keeps its next owner behind these kernels.
        unsafe {
            if is_scaled {
                self.largest.launch([GradientScratch::MAXIMA, 1, 1], ROW_THREADS, &params);
            }
            self.prepare.launch(tiles, ROW_THREADS, &params);
            self.gradients.launch_shared(slot_tiles, THREADS, shared, &params);
            self.d_query.launch(halves, D_QUERY_THREADS, &params);
        }
        Ok(())
    }

    fn tile_bytes(&self) -> usize {
        TILE_ROWS * self.dim * self.activation.bytes()
    }

    /// Of `replay_attend.cu`: tiles of queries, twice keys and values, barriers, positions of four
    /// tiles, and the list of tiles with its length.
    fn attend_bytes(&self, filled: usize) -> usize {
        let list = 16 + 4 * filled.div_ceil(TILE_ROWS).max(1);
        5 * self.tile_bytes() + 128 + 4 * TILE_ROWS * 4 + list
    }

    /// Of `replay_weights.cu`: keys, tiles of queries with logarithms, two barriers for each.
    fn weights_bytes(&self) -> usize {
        let keys = WEIGHTS_SLOTS / TILE_ROWS * self.tile_bytes();
        keys + WEIGHTS_STAGES * (self.tile_bytes() + TILE_ROWS * 4 + 2 * 8)
    }

    /// Of `replay_gradients.cu`: keys and values; twice images of queries and of gradients, with
    /// statistics, and gradients of scores; sums, four barriers for each of two stages.
    fn gradient_bytes(&self) -> usize {
        let image = GradientScratch::IMAGE_BYTES;
        let queries = GradientScratch::tile_queries(self.dim);
        let d_scores = queries * TILE_ROWS * self.activation.bytes();
        let sums = queries * self.dim * DType::F32.bytes();
        2 * self.tile_bytes() + 2 * (2 * image + queries * 8 + d_scores) + sums + 8 * 8
    }
}

/// Whether all rows begin at multiples of 16 bytes.
fn fits_16(view: View<'_>) -> bool {
    let stride = view.row_stride() * view.dtype().bytes();
    stride.is_multiple_of(16) && view.device_address().is_multiple_of(16)
}
