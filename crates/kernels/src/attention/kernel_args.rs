//! Arguments of attention as all kernels of a GPU take them.

use super::attend_args::{AttendArgs, AttendScratch};
use crate::arithmetic_class::activation_number;
use crate::cuda::extent;

impl AttendArgs<'_> {
    /// Query heads of one of `kv_heads`.
    pub(crate) fn group(&self, kv_heads: usize) -> u32 {
        extent(self.heads / kv_heads)
    }

    /// 0 for none.
    pub(crate) fn window_or_zero(&self) -> u32 {
        self.window.map_or(0, |window| extent(window.min(i32::MAX as usize)))
    }

    pub(crate) fn out_type(&self) -> u32 {
        u32::from(activation_number(self.out.dtype()))
    }

    /// Panics unless the heads, the window and the rows are such that kernels take them, and the
    /// scratch is as it was asked for.
    pub(crate) fn check_on_cuda(&self, kv_heads: usize, value_dim: usize, scratch: AttendScratch) {
        let [tokens, width] = self.out.dims();
        assert_eq!(width, self.heads * value_dim, "out of attention");
        assert!(self.heads.is_multiple_of(kv_heads), "{} query heads", self.heads);
        assert!(self.window != Some(0), "a window of 0 hides every key");
        assert_eq!(self.scratch.dims(), [tokens, scratch.columns], "scratch of attention");
        assert_eq!(self.scratch.dtype(), scratch.dtype, "type of scratch");
        for view in [&self.out, &self.scratch] {
            let [_, width] = view.dims();
            assert_eq!(view.row_stride(), width, "rows of attention are strided");
        }
    }
}
