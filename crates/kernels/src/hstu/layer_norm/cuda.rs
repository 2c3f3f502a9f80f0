//! Launches `layer_norm.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::Affine;
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

pub(crate) struct LayerNormKernels {
    layer_norm: TypedKernel<LayerNormParams>,
    add_layer_norm: TypedKernel<LayerNormParams>,
    add_rows: TypedKernel<LayerNormParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `LayerNormParams` in `layer_norm.cu`.
    struct LayerNormParams: 72 bytes {
        x: u64,
        delta: u64,
        weight: u64,
        bias: u64,
        out: u64,
        dim: u32,
        x_stride: u32,
        delta_stride: u32,
        out_stride: u32,
        eps: f32,
        rows: u64,
    }
}

impl LayerNormKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "layer_norm", activation.name())?;
        Ok(LayerNormKernels {
            layer_norm: TypedKernel::find(&module, "layer_norm")?,
            add_layer_norm: TypedKernel::find(&module, "add_layer_norm")?,
            add_rows: TypedKernel::find(&module, "add_rows")?,
            activation,
        })
    }

    /// x: f32 `[rows, dim]` · out: act `[rows, dim]`; rows may be strided.
    pub(crate) fn layer_norm(
        &self,
        x: View<'_>,
        affine: Option<Affine<'_>>,
        eps: f32,
        out: ViewMut<'_>,
    ) {
        let params = self.norm_params(x, affine, eps, &out);
        // SAFETY: the shapes were checked.
        unsafe { self.layer_norm.launch(grid(x), row_threads(x), &params) };
    }

    /// `sum += delta`, then `out = layer_norm(sum)` · sum: f32 `[rows, dim]` · delta, out: act.
    pub(crate) fn add_layer_norm(
        &self,
        sum: ViewMut<'_>,
        delta: View<'_>,
        affine: Option<Affine<'_>>,
        eps: f32,
        out: ViewMut<'_>,
    ) {
        let x = sum.as_view();
        self.check_delta(x, delta);
        let params = LayerNormParams {
            delta: delta.device_address(),
            delta_stride: extent(delta.row_stride()),
            ..self.norm_params(x, affine, eps, &out)
        };
        // SAFETY: the shapes were checked; what is added to is borrowed to be written.
        unsafe { self.add_layer_norm.launch(grid(x), row_threads(x), &params) };
    }

    /// `sum += delta` · sum: f32 `[rows, dim]` · delta: act
    pub(crate) fn add_rows(&self, sum: ViewMut<'_>, rows: Option<View<'_>>, delta: View<'_>) {
        let x = sum.as_view();
        match rows {
            None => self.check_delta(x, delta),
            Some(rows) => {
                let ([count, dim], [_, x_dim]) = (delta.dims(), x.dims());
                assert_eq!((rows.dims(), dim), ([count], x_dim), "rows of an addition");
            }
        }
        let params = LayerNormParams {
            x: x.device_address(),
            delta: delta.device_address(),
            weight: 0,
            bias: 0,
            out: 0,
            dim: extent(x.dims::<2>()[1]),
            x_stride: extent(x.row_stride()),
            delta_stride: extent(delta.row_stride()),
            out_stride: 0,
            eps: 0.0,
            rows: rows.map_or(0, |rows| rows.device_address()),
        };
        // SAFETY: the shapes were checked; what is added to is borrowed to be written.
        unsafe { self.add_rows.launch(grid(delta), row_threads(x), &params) };
    }

    fn norm_params(
        &self,
        x: View<'_>,
        affine: Option<Affine<'_>>,
        eps: f32,
        out: &ViewMut<'_>,
    ) -> LayerNormParams {
        let [_, dim] = x.dims();
        assert_eq!(out.shape(), x.shape(), "out of layer_norm");
        assert!(x.dtype() == DType::F32 && out.dtype() == self.activation, "types of layer_norm");
        if let Some(Affine { weight, bias }) = affine {
            let counts = [weight, bias].map(|vector| vector.view().shape().count());
            assert_eq!(counts, [dim; 2], "weight and bias of layer_norm");
        }
        LayerNormParams {
            x: x.device_address(),
            delta: 0,
            weight: affine.map_or(0, |affine| affine.weight.view().device_address()),
            bias: affine.map_or(0, |affine| affine.bias.view().device_address()),
            out: out.device_address(),
            dim: extent(dim),
            x_stride: extent(x.row_stride()),
            delta_stride: 0,
            out_stride: extent(out.row_stride()),
            eps,
            rows: 0,
        }
    }

    fn check_delta(&self, x: View<'_>, delta: View<'_>) {
        assert_eq!(delta.shape(), x.shape(), "delta of an addition");
        let types = [x.dtype(), delta.dtype()];
        assert_eq!(types, [DType::F32, self.activation], "types of an addition");
    }
}

/// A block for each row.
fn grid(x: View<'_>) -> [usize; 3] {
    let [rows, _] = x.dims();
    [rows, 1, 1]
}

fn row_threads(x: View<'_>) -> usize {
    let [_, dim] = x.dims();
    threads_of_row(dim)
}

/// Eight numbers for each thread, as far as that goes.
pub(crate) fn threads_of_row(dim: usize) -> usize {
    dim.div_ceil(8).next_multiple_of(32).clamp(32, 1024)
}
