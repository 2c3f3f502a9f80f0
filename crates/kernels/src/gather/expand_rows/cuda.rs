//! Launches `expand_rows.cu`.

use terrace_device::{DType, View, ViewMut};

use crate::cuda::{extent, kernel_params};
use crate::gather::hot_cache::cuda::ByWidth;

kernel_params! {
    /// Twin of `ExpandRowsParams` in `expand_rows.cu`.
    pub(crate) struct ExpandRowsParams: 32 bytes {
        from: u64,
        index: u64,
        to: u64,
        count: u32,
        row_bytes: u32,
    }
}

const THREADS: usize = 256;
/// Enough to fill a GPU; more would each copy too little.
const MOST_BLOCKS: usize = 4096;

impl ByWidth<ExpandRowsParams> {
    /// from: f32 `[rows, dim]`, dense · index: i32 `[count]` · to: f32 `[count, dim]`, dense
    pub(crate) fn expand_rows(&self, from: View<'_>, index: View<'_>, to: ViewMut<'_>) {
        let ([_, dim], [count]) = (from.dims(), index.dims());
        let row_bytes = dim * size_of::<f32>();
        assert_eq!(to.dims(), [count, dim], "rows to expand to");
        assert_eq!([from.dtype(), index.dtype(), to.dtype()], [DType::F32, DType::I32, DType::F32]);
        assert_eq!(to.as_view().dense_bytes(), count * row_bytes, "rows lie densely");
        let params = ExpandRowsParams {
            from: from.device_address(),
            index: index.device_address(),
            to: to.device_address(),
            count: extent(count),
            row_bytes: extent(row_bytes),
        };
        let blocks = (count * row_bytes).div_ceil(16 * THREADS).min(MOST_BLOCKS);
        // SAFETY: the shapes were just checked; that the indices name rows there are is the promise
        // of whoever made them.
        unsafe { self.of(row_bytes).launch([blocks, 1, 1], THREADS, &params) };
    }
}
