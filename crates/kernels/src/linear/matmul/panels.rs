//! Launches `panels.cu`: products of up to eight tokens.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, TensorMap};
use terrace_device::{Buffer, DType, Device};

use super::device_matrix::DeviceMatrix;
use super::matrix_kind::{MatrixKind, PANEL_ROWS, Packing};
use super::product::{Product, ProductSize};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct PanelsKernel {
    panels: TypedKernel<PanelsParams>,
    kind: MatrixKind,
    multiprocessors: usize,
    /// f32: a panel's sums of each slice of the columns.
    partials: Buffer,
    /// u32: zero between launches.
    counters: Buffer,
}

/// Most tokens of a launch.
pub(crate) const MOST_TOKENS: usize = 8;
/// Sixteen warps that multiply and one that brings weights.
const THREADS: usize = 17 * 32;
/// Columns that the sixteen warps share at a time; slices are a multiple of it.
const WARP_COLUMNS: usize = 512;
/// Bytes of the warps' sums of two panels.
const SUMS_BYTES: usize = 2 * 16 * PANEL_SUMS * 4;
const PANEL_SUMS: usize = PANEL_ROWS * MOST_TOKENS;
/// Shared memory of a block. One has a multiprocessor for itself: two of a launch would share one
/// while another had none.
const SHARED_BYTES: usize = 208 * 1024;
/// Barriers, and the panels that the stages are of.
const BARRIER_BYTES: usize = 1024;
/// A slice's columns of all tokens may take this much.
const MOST_X_BYTES: usize = 80 * 1024;
const MOST_STAGES: usize = 16;
/// Panels times slices, where columns are sliced: 17 MB of sums.
const MOST_PARTS: usize = 32 * 1024;
const MOST_SLICES: usize = 16;

kernel_params! {
    /// Twin of `PanelsParams` in `panels.cu`.
    struct PanelsParams: 256 bytes {
        map: TensorMap,
        x: u64,
        weights: u64,
        next: u64,
        bias: u64,
        out: u64,
        partials: u64,
        counters: u64,
        size: ProductSize,
        gate: u32,
        slices: u32,
        slice_columns: u32,
        stages: u32,
        own_panels: u32,
        next_bytes: u32,
        next_panels: u32,
    }
}

/// How the work of one launch is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    slices: usize,
    slice_columns: usize,
    stages: usize,
    own_panels: usize,
    blocks: usize,
    shared_bytes: usize,
}

impl PanelsKernel {
    pub(crate) fn load(
        device: &Arc<CudaDevice>,
        kind: MatrixKind,
        activation: DType,
    ) -> Result<Self, Error> {
        let panels = TypedKernel::load(device, "panels", &kind.variant(activation))?;
        panels.allow_shared(SHARED_BYTES)?;
        let home = Device::Cuda(Arc::clone(device));
        let partials = 4 * MOST_PARTS * PANEL_SUMS;
        let counters = 4 * (1 + MOST_SLICES + MOST_PARTS);
        Ok(PanelsKernel {
            panels,
            kind,
            multiprocessors: device.multiprocessors(),
            partials: home.take(partials, "sums of products")?,
            counters: home.take(counters, "counters of products")?,
        })
    }

    /// Whether there is room for the sums of such a product.
    pub(crate) fn takes(&self, tokens: usize, matrix: &DeviceMatrix) -> bool {
        if MOST_TOKENS < tokens {
            return false;
        }
        let slices = self.cut(tokens, matrix).slices;
        let parts = matrix.rows().div_ceil(PANEL_ROWS) * slices;
        slices == 1 || (parts <= MOST_PARTS && slices <= MOST_SLICES)
    }

    /// Up to eight tokens, if it `takes` them.
    pub(crate) fn project(&self, product: &Product<'_>) {
        let Product { matrix, x, .. } = product;
        let [tokens, _] = x.dims();
        assert!(self.takes(tokens, matrix), "{tokens} tokens and {} rows", matrix.rows());
        let cut = self.cut(tokens, matrix);
        let next = matrix.next();
        let params = PanelsParams {
            map: matrix.panel_boxes(),
            x: x.device_address(),
            weights: matrix.packed().device_address(),
            next: next.address,
            bias: product.bias_address(),
            out: product.out.device_address(),
            partials: self.partials.view(DType::F32, [1]).device_address(),
            counters: self.counters.view(DType::I32, [1]).device_address(),
            size: product.size(),
            gate: product.gate_code(),
            slices: extent(cut.slices),
            slice_columns: extent(cut.slice_columns),
            stages: extent(cut.stages),
            own_panels: extent(cut.own_panels),
            next_bytes: extent(next.panel_bytes),
            next_panels: extent(next.panels),
        };
        let grid = [cut.blocks, 1, 1];
        // SAFETY: `Product` has checked the shapes, and the sums and counters suffice for the cut.
        unsafe { self.panels.launch_shared(grid, THREADS, cut.shared_bytes, &params) };
    }

    fn cut(&self, tokens: usize, matrix: &DeviceMatrix) -> Cut {
        let (rows, columns) = (matrix.rows(), matrix.columns());
        let (stage_columns, stage_bytes) = stage(self.kind);
        // As the kernel keeps them: 1, 2, 4 or 8 tokens, and for some kinds a sum beside them.
        let padded = tokens.next_power_of_two();
        let column_bytes = 2 * padded + usize::from(needs_sums(self.kind));
        let (slices, slice_columns) = self.slices(columns, column_bytes);
        let x_bytes = slice_columns * column_bytes;
        let rest = SUMS_BYTES + x_bytes + BARRIER_BYTES;
        let stages = ((SHARED_BYTES - rest) / stage_bytes).min(MOST_STAGES);
        let panels = rows.div_ceil(PANEL_ROWS);
        Cut {
            slices,
            slice_columns,
            stages,
            own_panels: (stages * stage_columns).div_ceil(slice_columns.min(columns)),
            blocks: (self.multiprocessors / slices).min(panels) * slices,
            shared_bytes: stages * stage_bytes + rest,
        }
    }

    /// As few slices as memory allows, or a few more where they divide columns and
    /// multiprocessors better.
    fn slices(&self, columns: usize, column_bytes: usize) -> (usize, usize) {
        let whole = columns.next_multiple_of(WARP_COLUMNS);
        let least = (whole * column_bytes).div_ceil(MOST_X_BYTES).max(1);
        let cuts = (least..least + 4).map(|wanted| {
            let slice = columns.div_ceil(wanted).next_multiple_of(WARP_COLUMNS);
            (columns.div_ceil(slice), slice)
        });
        let waste = |&(slices, slice): &(usize, usize)| {
            let idle = self.multiprocessors as f64
                / (self.multiprocessors / slices * slices).max(1) as f64;
            (slices * slice) as f64 / columns as f64 * idle * (1.0 + 0.02 * slices as f64)
        };
        let best = cuts.min_by(|a, b| waste(a).total_cmp(&waste(b)));
        best.expect("there are four cuts")
    }
}

/// Columns and bytes of a stage of the ring: 20 to 40 KB.
fn stage(kind: MatrixKind) -> (usize, usize) {
    let columns = match kind {
        MatrixKind::Dense(_) => WARP_COLUMNS,
        MatrixKind::Packed(Packing::S4) => 8 * WARP_COLUMNS,
        MatrixKind::Packed(Packing::Q4) => 4 * WARP_COLUMNS,
        MatrixKind::Packed(Packing::Q6 | Packing::Q8) => 2 * WARP_COLUMNS,
    };
    (columns, kind.bytes(PANEL_ROWS, columns))
}

/// Whether the kernel needs the tokens' sums over each 32 columns.
fn needs_sums(kind: MatrixKind) -> bool {
    matches!(kind, MatrixKind::Packed(Packing::S4 | Packing::Q4))
}
