//! Launches the kernels of `expand_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;
use crate::gather::by_width::ByWidth;

kernel_params! {
    /// Twin of `ExpandRowsParams` in `expand_rows.cu`.
    struct ExpandRowsParams: 32 bytes {
        from: u64,
        index: u64,
        to: u64,
        count: u32,
        row_bytes: u32,
    }
}

pub(crate) struct ExpandKernels {
    expand: ByWidth<ExpandRowsParams>,
    scatter: ByWidth<ExpandRowsParams>,
}

const THREADS: usize = 256;
/// Enough to fill a GPU; more would each copy too little.
const MOST_BLOCKS: usize = 4096;

impl ExpandKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        Ok(ExpandKernels {
            expand: ByWidth::find(device, "expand_rows", "expand_rows")?,
            scatter: ByWidth::find(device, "expand_rows", "scatter_rows")?,
        })
    }

    /// from: f32 `[rows, dim]` · index: i32 `[count]` · to: f32 `[count, dim]`; all dense
    pub(crate) fn expand(&self, from: View<'_>, index: View<'_>, to: ViewMut<'_>) {
        let ([_, dim], [count]) = (from.dims(), index.dims());
        assert_eq!(to.dims(), [count, dim], "rows to expand to");
        launch(self.expand.of(dim * size_of::<f32>()), from, index, to, dim);
    }

    /// from: f32 `[count, dim]` · index: i32 `[count]` · to: f32 `[rows, dim]`; all dense
    pub(crate) fn scatter(&self, from: View<'_>, index: View<'_>, to: ViewMut<'_>) {
        let ([_, dim], [count]) = (to.dims(), index.dims());
        assert_eq!(from.dims(), [count, dim], "rows to scatter");
        launch(self.scatter.of(dim * size_of::<f32>()), from, index, to, dim);
    }
}

fn launch(
    kernel: &TypedKernel<ExpandRowsParams>,
    from: View<'_>,
    index: View<'_>,
    to: ViewMut<'_>,
    dim: usize,
) {
    let [count] = index.dims();
    let row_bytes = dim * size_of::<f32>();
    assert_eq!([from.dtype(), index.dtype(), to.dtype()], [DType::F32, DType::I32, DType::F32]);
    for rows in [from, to.as_view()] {
        assert_eq!(rows.dense_bytes(), rows.shape().count() * 4, "rows lie densely");
    }
    let params = ExpandRowsParams {
        from: from.device_address(),
        index: index.device_address(),
        to: to.device_address(),
        count: extent(count),
        row_bytes: extent(row_bytes),
    };
    let blocks = (count * row_bytes).div_ceil(16 * THREADS).min(MOST_BLOCKS);
    // SAFETY: the shapes were just checked; that the indices name rows there are is the promise of
    // whoever made them.
    unsafe { kernel.launch([blocks, 1, 1], THREADS, &params) };
}
