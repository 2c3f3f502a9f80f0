//! A product of two matrices that may lie either way, on a GPU: what gradients are made of.
//!
//! cuBLASLt computes it where the library is there and the rows suit it; else a kernel of our own,
//! which takes any extent and is all there is in f32.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

/// `out = scale * left * right^T`, or added to what is there.
///
/// left: act `[rows, summed]` · right: act `[columns, summed]`, each of them or its transpose ·
/// out: act or f32 `[rows, columns]`; rows may be strided.
pub(crate) struct MatrixProduct<'a> {
    pub left: Operand<'a>,
    pub right: Operand<'a>,
    pub scale: f32,
    pub adds: bool,
    pub out: ViewMut<'a>,
}

#[derive(Clone, Copy)]
pub(crate) struct Operand<'a> {
    pub view: View<'a>,
    /// Whether the numbers that are summed over lie below each other.
    pub is_transposed: bool,
}

impl<'a> Operand<'a> {
    /// Each row gives a row, or a column, of the product.
    pub fn rows(view: View<'a>) -> Self {
        Operand { view, is_transposed: false }
    }

    /// Each column does.
    pub fn columns(view: View<'a>) -> Self {
        Operand { view, is_transposed: true }
    }

    /// What it gives, and what is summed over.
    pub fn extents(&self) -> [usize; 2] {
        let [rows, columns] = self.view.dims();
        if self.is_transposed { [columns, rows] } else { [rows, columns] }
    }
}

impl MatrixProduct<'_> {
    /// Rows and columns of the product, and how many numbers are summed.
    #[track_caller]
    pub fn extents(&self) -> [usize; 3] {
        let ([rows, summed], [columns, also]) = (self.left.extents(), self.right.extents());
        assert_eq!(summed, also, "what a product sums over");
        assert_eq!(self.out.dims(), [rows, columns], "out of a product");
        [rows, columns, summed]
    }
}

pub(crate) struct MatrixProductKernel {
    kernel: TypedKernel<MatrixProductParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `MatrixProductParams` in `matrix_product.cu`.
    struct MatrixProductParams: 56 bytes {
        left: u64,
        right: u64,
        out: u64,
        rows: u32,
        columns: u32,
        summed: u32,
        left_stride: u32,
        right_stride: u32,
        out_stride: u32,
        scale: f32,
        /// Bits of `ProductForm`.
        form: u32,
    }
}

const TILE: usize = 64;
const THREADS: usize = 256;

impl MatrixProductKernel {
    pub fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "matrix_product", activation.name())?;
        Ok(MatrixProductKernel { kernel, activation })
    }

    pub fn multiply(&self, product: &MatrixProduct<'_>) {
        let [rows, columns, summed] = product.extents();
        let MatrixProduct { left, right, scale, adds, out } = product;
        let types = [left.view.dtype(), right.view.dtype()];
        assert!(types == [self.activation; 2], "types of a product: {types:?}");
        let is_f32 = out.dtype() == DType::F32;
        assert!(is_f32 || out.dtype() == self.activation, "type of a product's out");
        if rows == 0 || columns == 0 {
            return;
        }
        let form = [is_f32, *adds, left.is_transposed, right.is_transposed];
        let params = MatrixProductParams {
            left: left.view.device_address(),
            right: right.view.device_address(),
            out: out.device_address(),
            rows: extent(rows),
            columns: extent(columns),
            summed: extent(summed),
            left_stride: extent(left.view.row_stride()),
            right_stride: extent(right.view.row_stride()),
            out_stride: extent(out.row_stride()),
            scale: *scale,
            form: form.iter().enumerate().map(|(bit, is_set)| u32::from(*is_set) << bit).sum(),
        };
        let grid = [columns.div_ceil(TILE), rows.div_ceil(TILE), 1];
        // SAFETY: the shapes were just checked, and the kernel goes no further than they do.
        unsafe { self.kernel.launch(grid, THREADS, &params) };
    }
}
