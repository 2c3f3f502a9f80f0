//! One product on a GPU, checked.

use terrace_device::{DType, View, ViewMut};

use super::bias::Bias;
use super::device_matrix::DeviceMatrix;
use crate::cuda::{extent, kernel_params};
use crate::elementwise::gate::Activation;

/// `out = epilogue(x * matrix^T + bias)`, or the gated unit of a matrix whose rows take turns.
///
/// x: act `[tokens, columns]` · bias: `[rows]` · out: act or f32 `[tokens, rows]`, or half as
/// many columns if gated; rows of `x` and `out` may be strided.
pub(crate) struct Product<'a> {
    pub x: View<'a>,
    pub matrix: &'a DeviceMatrix,
    pub bias: Option<Bias<'a>>,
    pub gate: Option<Activation>,
    pub epilogue: Epilogue,
    pub out: ViewMut<'a>,
}

/// A function of each result, in the kernel that writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epilogue {
    None,
    Relu,
    Sigmoid,
}

kernel_params! {
    /// What the params of all products have in common.
    pub(crate) struct ProductSize: 24 bytes {
        tokens: u32,
        rows: u32,
        columns: u32,
        x_stride: u32,
        out_stride: u32,
        /// Bits of `ProductOut` in product_out.cuh.
        out: u32,
    }
}

impl ProductSize {
    pub fn new(x: View<'_>, rows: usize, epilogue: Epilogue, out: &ViewMut<'_>) -> Self {
        let [tokens, columns] = x.dims();
        let epilogue = match epilogue {
            Epilogue::None => 0,
            Epilogue::Relu => 2,
            Epilogue::Sigmoid => 4,
        };
        ProductSize {
            tokens: extent(tokens),
            rows: extent(rows),
            columns: extent(columns),
            x_stride: extent(x.row_stride()),
            out_stride: extent(out.row_stride()),
            out: u32::from(out.dtype() == DType::F32) | epilogue,
        }
    }
}

impl<'a> Product<'a> {
    pub fn new(
        x: View<'a>,
        matrix: &'a DeviceMatrix,
        bias: Option<Bias<'a>>,
        gate: Option<Activation>,
        out: ViewMut<'a>,
    ) -> Self {
        let [tokens, columns] = x.dims();
        let rows = matrix.rows();
        assert_eq!(matrix.columns(), columns, "columns of weight");
        let width = if gate.is_some() { rows / 2 } else { rows };
        assert_eq!(out.dims(), [tokens, width], "out of project");
        bias.inspect(|bias| bias.check(rows));
        assert!(gate.is_none() || bias.is_none(), "a gated unit has no bias here");
        assert!([DType::F32, x.dtype()].contains(&out.dtype()), "type of out of project");
        Product { x, matrix, bias, gate, epilogue: Epilogue::None, out }
    }

    pub fn size(&self) -> ProductSize {
        ProductSize::new(self.x, self.matrix.rows(), self.epilogue, &self.out)
    }

    pub fn tokens(&self) -> usize {
        let [tokens, _] = self.x.dims();
        tokens
    }

    /// 0 for none.
    pub fn bias_address(&self) -> u64 {
        Bias::address(self.bias)
    }

    /// As the kernels number activations.
    pub fn gate_code(&self) -> u32 {
        match self.gate {
            None => 0,
            Some(Activation::Silu) => 1,
            Some(Activation::GeluTanh) => 2,
        }
    }
}
