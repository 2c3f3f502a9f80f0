//! Launches `replay_plain.cu` and `replay_plain_gradients.cu`.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaModule};
use terrace_device::{BufferPool, DType, View, ViewMut};

use super::replay_step::ReplayStep;
use crate::attention::replay::args::{ReplayGradients, ReplayQueries};
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

pub(super) struct PlainKernels {
    activation: DType,
    /// With tiles of 32 rows, and of 16.
    sizes: [Size; 2],
    means: TypedKernel<ReplayGradientParams>,
}

/// The kernels whose tiles have so many rows.
struct Size {
    tile: usize,
    attend: TypedKernel<ReplayAttendParams>,
    weights: TypedKernel<ReplayWeightsParams>,
    d_query: TypedKernel<ReplayGradientParams>,
    d_slots: TypedKernel<ReplayGradientParams>,
}

kernel_params! {
    /// Twin of `ReplayAttendParams` in `replay_plain.cu` and `replay_attend.cu`.
    pub(super) struct ReplayAttendParams: 104 bytes {
        pub step: ReplayStep,
        pub out: u64,
        pub log_sums: u64,
        pub out_stride: u32,
    }
}

kernel_params! {
    /// Twin of `ReplayWeightsParams` in `replay_plain.cu` and `replay_weights.cu`.
    pub(super) struct ReplayWeightsParams: 96 bytes {
        pub step: ReplayStep,
        pub log_sums: u64,
        pub weights: u64,
    }
}

kernel_params! {
    /// Twin of `ReplayGradientParams` in `replay_plain_gradients.cu`.
    struct ReplayGradientParams: 152 bytes {
        step: ReplayStep,
        out: u64,
        log_sums: u64,
        d_out: u64,
        d_query: u64,
        d_keys: u64,
        d_values: u64,
        means: u64,
        out_stride: u32,
        d_out_stride: u32,
        d_query_stride: u32,
    }
}

/// Widest head.
pub(super) const MAX_HEAD_DIM: usize = 256;
/// Widest head with tiles of 32 rows: four tiles are to fit the 99 KiB of the smallest GPU.
const WIDE_DIM: usize = 128;
const SIDE: usize = 16;
const THREADS: usize = SIDE * SIDE;

impl PlainKernels {
    pub(super) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let forward = load(device, "replay_plain", activation.name())?;
        let gradients = load(device, "replay_plain_gradients", activation.name())?;
        Ok(PlainKernels {
            activation,
            sizes: [
                Size::load(&forward, &gradients, 32, WIDE_DIM)?,
                Size::load(&forward, &gradients, 16, MAX_HEAD_DIM)?,
            ],
            means: TypedKernel::find(&gradients, "replay_means")?,
        })
    }

    fn size(&self, dim: usize) -> &Size {
        assert!(dim <= MAX_HEAD_DIM, "heads of {dim} numbers");
        &self.sizes[usize::from(dim > WIDE_DIM)]
    }

    /// out and log_sums as the caller has checked them
    pub(super) fn attend(&self, queries: &ReplayQueries<'_>, out: &ViewMut<'_>, log_sums: u64) {
        let (at, size) = (queries.at, self.size(queries.at.dim));
        let params = ReplayAttendParams {
            step: ReplayStep::new(queries, self.activation),
            out: out.device_address(),
            log_sums,
            out_stride: extent(out.row_stride()),
        };
        let grid = [at.tokens.div_ceil(size.tile), at.heads, at.seqs];
        let shared = size.attend_bytes(at.dim);
        // SAFETY: `ReplayStep` and the caller have checked shapes and types.
        unsafe { size.attend.launch_shared(grid, THREADS, shared, &params) };
    }

    /// log_sums and weights as the caller has checked them
    pub(super) fn weight_sums(
        &self,
        queries: &ReplayQueries<'_>,
        log_sums: View<'_>,
        weights: &ViewMut<'_>,
    ) {
        let (at, size) = (queries.at, self.size(queries.at.dim));
        let params = ReplayWeightsParams {
            step: ReplayStep::new(queries, self.activation),
            log_sums: log_sums.device_address(),
            weights: weights.device_address(),
        };
        let grid = [queries.slots.filled.div_ceil(size.tile), at.kv_heads, at.seqs];
        let shared = size.weights_bytes(at.dim);
        // SAFETY: `ReplayStep` and the caller have checked shapes and types.
        unsafe { size.weights.launch_shared(grid, THREADS, shared, &params) };
    }

    /// args as the caller has checked them
    pub(super) fn attend_gradients(
        &self,
        args: &ReplayGradients<'_>,
        pool: &BufferPool,
    ) -> Result<(), Error> {
        let (queries, at) = (&args.queries, args.queries.at);
        let (size, filled) = (self.size(at.dim), queries.slots.filled);
        let count = at.seqs * at.tokens * at.heads;
        let mut means = pool.take(count * DType::F32.bytes(), "means of gradients")?;
        let means = means.buffer_mut().view_mut(DType::F32, [count]);
        let params = ReplayGradientParams {
            step: ReplayStep::new(queries, self.activation),
            out: args.out.device_address(),
            log_sums: args.log_sums.device_address(),
            d_out: args.d_out.device_address(),
            d_query: args.d_query.device_address(),
            d_keys: args.d_keys.device_address(),
            d_values: args.d_values.device_address(),
            means: means.device_address(),
            out_stride: extent(args.out.row_stride()),
            d_out_stride: extent(args.d_out.row_stride()),
            d_query_stride: extent(args.d_query.row_stride()),
        };
        let warps = THREADS / 32;
        let rows = [(at.tokens * at.heads).div_ceil(warps), at.seqs, 1];
        let query_tiles = [at.tokens.div_ceil(size.tile), at.heads, at.seqs];
        let slot_tiles = [filled.div_ceil(size.tile), at.kv_heads, at.seqs];
        let shared = size.gradient_bytes(at.dim);
        // SAFETY: `ReplayStep` and the caller have checked shapes and types; the stream's order
        // keeps the next owner of `means` behind the kernels that read it.
        unsafe {
            self.means.launch(rows, THREADS, &params);
            size.d_query.launch_shared(query_tiles, THREADS, shared, &params);
            size.d_slots.launch_shared(slot_tiles, THREADS, shared, &params);
        }
        Ok(())
    }
}

impl Size {
    fn load(
        forward: &CudaModule,
        gradients: &CudaModule,
        tile: usize,
        most_dim: usize,
    ) -> Result<Self, Error> {
        let size = Size {
            tile,
            attend: TypedKernel::find(forward, &format!("replay_attend_{tile}"))?,
            weights: TypedKernel::find(forward, &format!("replay_weights_{tile}"))?,
            d_query: TypedKernel::find(gradients, &format!("replay_d_query_{tile}"))?,
            d_slots: TypedKernel::find(gradients, &format!("replay_d_slots_{tile}"))?,
        };
        size.attend.allow_shared(size.attend_bytes(most_dim))?;
        size.weights.allow_shared(size.weights_bytes(most_dim))?;
        size.d_query.allow_shared(size.gradient_bytes(most_dim))?;
        size.d_slots.allow_shared(size.gradient_bytes(most_dim))?;
        Ok(size)
    }

    /// Tiles of queries, keys and values, weights, positions.
    fn attend_bytes(&self, dim: usize) -> usize {
        self.bytes(3, dim, self.weights() + self.tile)
    }

    /// Tiles of keys and queries; sums of the threads that share a slot; logarithms, positions.
    fn weights_bytes(&self, dim: usize) -> usize {
        self.bytes(2, dim, SIDE * self.tile + 2 * self.tile)
    }

    /// Tiles of queries, their gradients, keys and values; shares and gradients of scores;
    /// logarithms, means and positions.
    fn gradient_bytes(&self, dim: usize) -> usize {
        self.bytes(4, dim, 2 * self.weights() + 3 * self.tile)
    }

    /// Some tiles and other numbers.
    fn bytes(&self, tiles: usize, dim: usize, numbers: usize) -> usize {
        let width = dim.next_multiple_of(4) + 4;
        (tiles * self.tile * width + numbers) * DType::F32.bytes()
    }

    /// Of one row with each met one, and one number more.
    fn weights(&self) -> usize {
        self.tile * (self.tile + 1)
    }
}
