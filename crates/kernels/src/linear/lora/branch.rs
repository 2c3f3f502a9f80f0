//! The matrices of a branch.

use terrace_device::View;

use crate::linear::linear::Linear;

/// The matrices of a branch, each a [`Linear`] of one weight without a bias.
#[derive(Clone, Copy)]
pub struct LoraBranch<'a> {
    pub a: &'a Linear,
    pub b: &'a Linear,
    pub scale: f32,
}

impl LoraBranch<'_> {
    pub fn rank(&self) -> usize {
        self.a.rows()
    }

    #[track_caller]
    pub(super) fn check(&self, tokens: usize, columns: usize, rows: usize, inner: View<'_>) {
        assert_eq!(self.a.columns(), columns, "columns of a branch");
        assert_eq!(self.b.rows(), rows, "rows of a branch");
        assert_eq!(self.b.columns(), self.rank(), "rank of a branch");
        assert_eq!(inner.dims(), [tokens, self.rank()], "inner of a branch");
    }
}
