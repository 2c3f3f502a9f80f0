//! Launches `scale_columns.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::elementwise::run_grid::RunGrid;
use crate::error::Error;

pub(crate) struct ColumnKernels {
    add_to_act: TypedKernel<AddToColumnsParams>,
    add_to_f32: TypedKernel<AddToColumnsParams>,
    scale_to_act: TypedKernel<ScaleColumnsParams>,
    scale_to_f32: TypedKernel<ScaleColumnsParams>,
    sum: TypedKernel<SumColumnsParams>,
    activation: DType,
    /// Enough to keep the device busy.
    wanted_blocks: usize,
}

kernel_params! {
    /// Twin of `AddToColumnsParams` in `scale_columns.cu`.
    struct AddToColumnsParams: 40 bytes {
        x: u64,
        added: u64,
        grid: RunGrid,
        dim: u32,
        x_stride: u32,
    }
}

kernel_params! {
    /// Twin of `ScaleColumnsParams` in `scale_columns.cu`.
    struct ScaleColumnsParams: 48 bytes {
        x: u64,
        factors: u64,
        out: u64,
        grid: RunGrid,
        dim: u32,
        x_stride: u32,
        out_stride: u32,
    }
}

kernel_params! {
    /// Twin of `SumColumnsParams` in `scale_columns.cu`.
    struct SumColumnsParams: 48 bytes {
        x: u64,
        d_out: u64,
        sums: u64,
        rows: u32,
        dim: u32,
        x_stride: u32,
        d_out_stride: u32,
        part_rows: u32,
    }
}

/// Columns of a block that sums, and its threads.
const COLUMNS: usize = 32;
const SUM_THREADS: usize = 256;
/// Rows of such a block: enough that what it does at its end does not count, and so few that each
/// thread's sum stays short.
const PART_ROWS_LEAST: usize = 64;
const PART_ROWS_MOST: usize = 2048;

impl ColumnKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "scale_columns", activation.name())?;
        Ok(ColumnKernels {
            add_to_act: TypedKernel::find(&module, "add_to_columns")?,
            add_to_f32: TypedKernel::find(&module, "add_to_columns_f32")?,
            scale_to_act: TypedKernel::find(&module, "scale_columns")?,
            scale_to_f32: TypedKernel::find(&module, "scale_columns_f32")?,
            sum: TypedKernel::find(&module, "sum_columns")?,
            activation,
            wanted_blocks: 8 * device.multiprocessors(),
        })
    }

    /// `x += added` · x: act or f32 `[rows, dim]`, rows may be strided · added: f32 `[dim]`
    pub(crate) fn add_to_columns(&self, x: ViewMut<'_>, added: View<'_>) {
        let [rows, dim] = x.dims();
        assert_eq!(added.dims(), [dim], "added of add_to_columns");
        assert_eq!(added.dtype(), DType::F32, "type of added of add_to_columns");
        let kernel = self.choose(x.dtype(), [&self.add_to_act, &self.add_to_f32]);
        let grid = RunGrid::new(rows, dim);
        let params = AddToColumnsParams {
            x: x.device_address(),
            added: added.device_address(),
            grid,
            dim: extent(dim),
            x_stride: extent(x.row_stride()),
        };
        // SAFETY: the shapes and types were just checked; x is borrowed to be written.
        unsafe { kernel.launch(grid.blocks(), RunGrid::THREADS, &params) };
    }

    /// `out = x * factors` · x: f32 `[rows, dim]` · factors: f32 `[dim]` · out: act or f32
    /// `[rows, dim]`; rows may be strided.
    pub(crate) fn scale_columns(&self, x: View<'_>, factors: View<'_>, out: ViewMut<'_>) {
        let [rows, dim] = x.dims();
        assert_eq!(out.dims(), [rows, dim], "out of scale_columns");
        assert_eq!(factors.dims(), [dim], "factors of scale_columns");
        assert_eq!([x.dtype(), factors.dtype()], [DType::F32; 2], "types of scale_columns");
        let kernel = self.choose(out.dtype(), [&self.scale_to_act, &self.scale_to_f32]);
        let grid = RunGrid::new(rows, dim);
        let params = ScaleColumnsParams {
            x: x.device_address(),
            factors: factors.device_address(),
            out: out.device_address(),
            grid,
            dim: extent(dim),
            x_stride: extent(x.row_stride()),
            out_stride: extent(out.row_stride()),
        };
        // SAFETY: the shapes and types were just checked.
        unsafe { kernel.launch(grid.blocks(), RunGrid::THREADS, &params) };
    }

    /// `d_factors += Σ_rows d_out * x` · x, d_out: f32 `[rows, dim]`, rows may be strided ·
    /// d_factors: f32 `[dim]`
    pub(crate) fn factor_gradients(&self, x: View<'_>, d_out: View<'_>, d_factors: ViewMut<'_>) {
        assert_eq!(x.shape(), d_out.shape(), "x of factor_gradients");
        assert_eq!(x.dtype(), DType::F32, "type of x of factor_gradients");
        self.sum(Some(x), d_out, &d_factors);
    }

    /// `sums += Σ_rows d_out` · d_out: f32 `[rows, dim]`, rows may be strided · sums: f32 `[dim]`
    pub(crate) fn column_sums(&self, d_out: View<'_>, sums: ViewMut<'_>) {
        self.sum(None, d_out, &sums);
    }

    fn sum(&self, x: Option<View<'_>>, d_out: View<'_>, sums: &ViewMut<'_>) {
        let [rows, dim] = d_out.dims();
        assert_eq!(sums.dims(), [dim], "sums of columns");
        assert_eq!([d_out.dtype(), sums.dtype()], [DType::F32; 2], "types of sums of columns");
        let strips = dim.div_ceil(COLUMNS);
        let parts = self.wanted_blocks.div_ceil(strips.max(1));
        let part_rows = rows.div_ceil(parts).clamp(PART_ROWS_LEAST, PART_ROWS_MOST);
        let params = SumColumnsParams {
            x: x.map_or(0, |x| x.device_address()),
            d_out: d_out.device_address(),
            sums: sums.device_address(),
            rows: extent(rows),
            dim: extent(dim),
            x_stride: x.map_or(0, |x| extent(x.row_stride())),
            d_out_stride: extent(d_out.row_stride()),
            part_rows: extent(part_rows),
        };
        let grid = [strips, rows.div_ceil(part_rows), 1];
        // SAFETY: shapes and types were checked; what is added to is borrowed to be written.
        unsafe { self.sum.launch(grid, SUM_THREADS, &params) };
    }

    /// The kernel for activations, or that for f32.
    #[track_caller]
    fn choose<'k, P>(
        &self,
        dtype: DType,
        [act, f32]: [&'k TypedKernel<P>; 2],
    ) -> &'k TypedKernel<P> {
        match dtype {
            DType::F32 => f32,
            other if other == self.activation => act,
            other => panic!("columns of {}", other.name()),
        }
    }
}
