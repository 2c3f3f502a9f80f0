//! One product on a GPU, checked.

use terrace_device::{DType, View, ViewMut};

use super::device_matrix::DeviceMatrix;
use crate::cuda::{extent, kernel_params};
use crate::elementwise::gate::Activation;

/// `out = x * matrix^T + bias`, or the gated unit of a matrix whose rows take turns; where it says
/// so, negative results become 0.
///
/// x: act `[tokens, columns]` · bias: f32 `[rows]` · out: act or f32 `[tokens, rows]`, or half as
/// many columns if gated; rows of `x` and `out` may be strided.
pub(crate) struct Product<'a> {
    pub x: View<'a>,
    pub matrix: &'a DeviceMatrix,
    pub bias: Option<View<'a>>,
    pub gate: Option<Activation>,
    pub relu: bool,
    pub out: ViewMut<'a>,
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
    pub fn new(x: View<'_>, rows: usize, relu: bool, out: &ViewMut<'_>) -> Self {
        let [tokens, columns] = x.dims();
        ProductSize {
            tokens: extent(tokens),
            rows: extent(rows),
            columns: extent(columns),
            x_stride: extent(x.row_stride()),
            out_stride: extent(out.row_stride()),
            out: u32::from(out.dtype() == DType::F32) | u32::from(relu) << 1,
        }
    }
}

impl<'a> Product<'a> {
    pub fn new(
        x: View<'a>,
        matrix: &'a DeviceMatrix,
        bias: Option<View<'a>>,
        gate: Option<Activation>,
        out: ViewMut<'a>,
    ) -> Self {
        let [tokens, columns] = x.dims();
        let rows = matrix.rows();
        assert_eq!(matrix.columns(), columns, "columns of weight");
        let width = if gate.is_some() { rows / 2 } else { rows };
        assert_eq!(out.dims(), [tokens, width], "out of project");
        assert!(bias.is_none_or(|bias| bias.dims() == [rows]), "bias of project");
        assert!(gate.is_none() || bias.is_none(), "a gated unit has no bias here");
        assert!([DType::F32, x.dtype()].contains(&out.dtype()), "type of out of project");
        Product { x, matrix, bias, gate, relu: false, out }
    }

    pub fn size(&self) -> ProductSize {
        ProductSize::new(self.x, self.matrix.rows(), self.relu, &self.out)
    }

    pub fn tokens(&self) -> usize {
        let [tokens, _] = self.x.dims();
        tokens
    }

    /// 0 for none.
    pub fn bias_address(&self) -> u64 {
        self.bias.map_or(0, |bias| bias.device_address())
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
