//! A product with dense weights on a GPU, checked.

use terrace_device::{DType, View, ViewMut};

use super::bias::Bias;
use super::product::{Epilogue, ProductSize};
use crate::cuda::kernel_params;

/// `out = epilogue(x * weight^T + bias)`
///
/// x: act `[tokens, columns]` · weight: act `[rows, columns]`, dense · bias: `[rows]` · out: act
/// or f32 `[tokens, rows]`; rows of `x` and `out` may be strided.
pub(crate) struct DenseProduct<'a> {
    pub x: View<'a>,
    pub weight: View<'a>,
    pub bias: Option<Bias<'a>>,
    pub epilogue: Epilogue,
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
        bias: Option<Bias<'a>>,
        out: &'a ViewMut<'a>,
    ) -> Self {
        let ([tokens, columns], [rows, _]) = (x.dims(), weight.dims());
        assert_eq!(weight.dims(), [rows, columns], "columns of weight");
        assert_eq!(weight.row_stride(), columns, "weight of project is strided");
        assert_eq!(out.dims(), [tokens, rows], "out of project");
        bias.inspect(|bias| bias.check(rows));
        DenseProduct { x, weight, bias, epilogue: Epilogue::None, out }
    }

    /// Panics unless both are halves of one type, in rows of whole 16 bytes, and `out` is of it or
    /// f32.
    pub fn check_whole_rows(&self) {
        let DenseProduct { x, weight, out, .. } = self;
        let [_, columns] = x.dims();
        let act = x.dtype();
        let are_act = act.bytes() == 2 && weight.dtype() == act;
        assert!(are_act && [DType::F32, act].contains(&out.dtype()), "types of project");
        let addresses = x.device_address() | weight.device_address();
        let strides = [columns, x.row_stride()];
        let are_whole = addresses.is_multiple_of(16) && strides.iter().all(|n| n.is_multiple_of(8));
        assert!(are_whole, "rows of {strides:?} numbers at {addresses:#x} are not whole 16 bytes");
    }

    pub fn params(&self) -> DenseParams {
        let [rows, _] = self.weight.dims();
        DenseParams {
            x: self.x.device_address(),
            weight: self.weight.device_address(),
            bias: Bias::address(self.bias),
            out: self.out.device_address(),
            size: ProductSize::new(self.x, rows, self.epilogue, self.out),
        }
    }
}
