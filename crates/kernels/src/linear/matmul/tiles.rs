//! Launches `tiles.cu`: products of up to 64 tokens.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, TensorMap};
use terrace_device::{Buffer, DType, Device};

use super::matrix_kind::{MatrixKind, TILE_ROWS};
use super::product::{Product, ProductSize};
use crate::cuda::{TypedKernel, kernel_params, load};
use crate::error::Error;

pub(crate) struct TilesKernels {
    /// For up to 32 and, where they are dense, up to 64 tokens.
    kernels: Vec<TypedKernel<TilesParams>>,
    kind: MatrixKind,
    multiprocessors: usize,
    /// f32: two tiles' sums for each block.
    partials: Buffer,
    /// u32 for each tile: zero between launches.
    arrivals: Buffer,
}

/// Most tokens worth streaming the weights for.
pub(crate) const MOST_TOKENS: usize = 64;
const CLASSES: [usize; 2] = [32, 64];
/// Shared memory for the ring of stages. A block has a multiprocessor for itself: two of a launch
/// would share one while another had none.
const RING_BYTES: usize = 192 * 1024;
/// More rows than any vocabulary has.
const MOST_TILES: usize = 64 * 1024;

kernel_params! {
    /// Twin of `TilesParams` in `tiles.cu`.
    struct TilesParams: 256 bytes {
        map: TensorMap,
        x: u64,
        weights: u64,
        bias: u64,
        out: u64,
        partials: u64,
        arrivals: u64,
        size: ProductSize,
        gate: u32,
    }
}

impl TilesKernels {
    pub(crate) fn load(
        device: &Arc<CudaDevice>,
        kind: MatrixKind,
        activation: DType,
    ) -> Result<Self, Error> {
        let module = load(device, "tiles", &kind.variant(activation))?;
        let mut kernels = vec![TypedKernel::find(&module, "tiles_32")?];
        if matches!(kind, MatrixKind::Dense(_)) {
            kernels.push(TypedKernel::find(&module, "tiles_64")?);
        }
        for (kernel, class) in kernels.iter().zip(CLASSES) {
            kernel.allow_shared(shared_bytes(kind, class))?;
        }
        let home = Device::Cuda(Arc::clone(device));
        let multiprocessors = device.multiprocessors();
        let partials = multiprocessors * 2 * MOST_TOKENS * TILE_ROWS * 4;
        Ok(TilesKernels {
            kernels,
            kind,
            multiprocessors,
            partials: home.take(partials, "sums of products")?,
            arrivals: home.take(4 * MOST_TILES, "counters of products")?,
        })
    }

    /// Most tokens of a launch.
    pub(crate) fn most_tokens(&self) -> usize {
        CLASSES[self.kernels.len() - 1]
    }

    /// Up to `most_tokens`. The order of a sum is the same for any number of them.
    pub(crate) fn project(&self, product: &Product<'_>) {
        let Product { matrix, x, .. } = product;
        let [tokens, columns] = x.dims();
        assert!(tokens <= self.most_tokens(), "{tokens} tokens, at most {}", self.most_tokens());
        let tiles = matrix.rows().div_ceil(TILE_ROWS);
        assert!(tiles <= MOST_TILES, "{tiles} tiles, at most {MOST_TILES}");
        let params = TilesParams {
            map: matrix.tile_boxes(),
            x: x.device_address(),
            weights: matrix.packed().device_address(),
            bias: product.bias_address(),
            out: product.out.device_address(),
            partials: self.partials.view(DType::F32, [1]).device_address(),
            arrivals: self.arrivals.view(DType::I32, [1]).device_address(),
            size: product.size(),
            gate: product.gate_code(),
        };
        let units = tiles * columns.div_ceil(unit_columns(self.kind));
        let class = usize::from(tokens > CLASSES[0]);
        let (grid, threads) = ([units.min(self.multiprocessors), 1, 1], threads(self.kind));
        let shared_bytes = shared_bytes(self.kind, CLASSES[class]);
        // SAFETY: `Product` has checked the shapes, and the sums and counters suffice for as many
        // blocks and tiles.
        unsafe { self.kernels[class].launch_shared(grid, threads, shared_bytes, &params) };
    }
}

/// Warps that multiply, two panels or one each by half a unit's columns, and one that brings
/// weights.
fn threads(kind: MatrixKind) -> usize {
    let warps = if matches!(kind, MatrixKind::Dense(_)) { 8 } else { 16 };
    (warps + 1) * 32
}

/// Columns of a unit.
fn unit_columns(kind: MatrixKind) -> usize {
    if matches!(kind, MatrixKind::Dense(_)) { 64 } else { 128 }
}

/// Of `tiles.cu`: a ring of stages, sums on their way out, and the ring's barriers.
fn shared_bytes(kind: MatrixKind, class: usize) -> usize {
    let unit_bytes = match kind {
        MatrixKind::Dense(_) => TILE_ROWS * 64 * 2,
        MatrixKind::Packed(packing) => packing.matrix_bytes(TILE_ROWS, 128),
    };
    let stage = unit_bytes + class * unit_columns(kind) * 2;
    let stages = RING_BYTES / stage;
    stages * stage + 16 * (TILE_ROWS + 4) * 4 + stages * 16 + 16
}
