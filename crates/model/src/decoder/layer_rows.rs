//! Rows of a step that every layer has in a width of its own.

use terrace_device::{DType, View, ViewMut, Workspace};

/// They lie in memory for the widest.
pub(super) struct LayerRows<'w> {
    memory: ViewMut<'w>,
    rows: usize,
}

impl<'w> LayerRows<'w> {
    pub fn take(scratch: &'w Workspace, dtype: DType, [rows, widest]: [usize; 2]) -> Self {
        LayerRows { memory: scratch.take(dtype, [rows * widest]), rows }
    }

    /// `[rows, width]`, dense
    pub fn of_width(&mut self, width: usize) -> ViewMut<'_> {
        self.memory.reborrow().first(self.rows * width).reshape([self.rows, width])
    }

    /// As `of_width`, to read.
    pub fn read(&self, width: usize) -> View<'_> {
        self.memory.as_view().first(self.rows * width).reshape([self.rows, width])
    }
}
