//! A product with dense weights on a GPU, checked.

use terrace_device::{DType, View, ViewMut};

use super::product::ProductSize;
use crate::cuda::kernel_params;

/// `out = x * weight^T + bias`, or 0 where that is negative and `relu` is set
///
/// x: act `[tokens, columns]` · weight: act `[rows, columns]`, dense · bias: f32 `[rows]` · out:
/// act or f32 `[tokens, rows]`; rows of `x` and `out` may be strided.
pub(crate) struct DenseProduct<'a> {
    pub x: View<'a>,
    pub weight: View<'a>,
    pub bias: Option<View<'a>>,
    pub relu: bool,
    pub out: &'a ViewMut<'a>,
}

kernel_params! {
    /// Twin of `GemmParams` in `gemm.cu`, and of `PlainParams` in `plain_product.cu`.
    pub(crate) struct DenseParams: 56 bytes {
        x: u64,
        weight: u64,
        bias: u64,
        out: u64,
        size: ProductSize,
    }
}

impl<'a> DenseProduct<'a> {
    pub fn new(
        x: View<'a>,
        weight: View<'a>,
        bias: Option<View<'a>>,
        out: &'a ViewMut<'a>,
    ) -> Self {
        let ([tokens, columns], [rows, _]) = (x.dims(), weight.dims());
        assert_eq!(weight.dims(), [rows, columns], "columns of weight");
        assert_eq!(weight.row_stride(), columns, "weight of project is strided");
        assert_eq!(out.dims(), [tokens, rows], "out of project");
        let is_bias = |bias: View<'_>| bias.dims() == [rows] && bias.dtype() == DType::F32;
        assert!(bias.is_none_or(is_bias), "bias of project");
        DenseProduct { x, weight, bias, relu: false, out }
    }

    pub fn params(&self) -> DenseParams {
        let [rows, _] = self.weight.dims();
        DenseParams {
            x: self.x.device_address(),
            weight: self.weight.device_address(),
            bias: self.bias.map_or(0, |bias| bias.device_address()),
            out: self.out.device_address(),
            size: ProductSize::new(self.x, rows, self.relu, self.out),
        }
    }
}
