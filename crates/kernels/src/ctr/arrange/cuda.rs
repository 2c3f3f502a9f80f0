//! Launches `arrange.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::ctr::ctr_rows::{CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

pub(crate) struct ArrangeKernels {
    arrange: TypedKernel<ArrangeParams>,
    clear: TypedKernel<ArrangeParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `ArrangeParams` in `arrange.cu`.
    struct ArrangeParams: 48 bytes {
        x: CtrRows,
        out: CtrRows,
        x_width: u32,
        out_width: u32,
        out_rows: u32,
        unused: u32,
    }
}

impl ArrangeKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "arrange", activation.name())?;
        let arrange = TypedKernel::find(&module, "arrange")?;
        let clear = TypedKernel::find(&module, "clear_rows")?;
        Ok(ArrangeKernels { arrange, clear, activation })
    }

    /// x: f32 or act `[_, _]` · out: f32 or act `[_, _]`, the same numbers in the same order
    pub(crate) fn arrange(&self, x: View<'_>, out: ViewMut<'_>) {
        let ([rows, width], [out_rows, out_width]) = (x.dims(), out.dims());
        assert_eq!(rows * width, out_rows * out_width, "numbers of arrange");
        let x = CtrRows::of(x, self.activation);
        self.launch(&self.arrange, x, width, &out);
    }

    /// out: f32 or act `[rows, dim]`: zeros
    pub(crate) fn clear_rows(&self, out: ViewMut<'_>) {
        self.launch(&self.clear, CtrRows::NONE, 1, &out);
    }

    fn launch(
        &self,
        kernel: &TypedKernel<ArrangeParams>,
        x: CtrRows,
        x_width: usize,
        out: &ViewMut<'_>,
    ) {
        let [out_rows, out_width] = out.dims();
        let params = ArrangeParams {
            x,
            out: CtrRows::of_mut(out, self.activation),
            x_width: extent(x_width),
            out_width: extent(out_width),
            out_rows: extent(out_rows),
            unused: 0,
        };
        // SAFETY: the extents are those of the views.
        unsafe { kernel.launch(blocks(out_rows * out_width), THREADS, &params) };
    }
}
