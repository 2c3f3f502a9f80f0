//! The extents of a tensor: at most four, outermost first.

use std::fmt;

/// Most dimensions a shape can have; no op needs more.
pub(crate) const MAX_RANK: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: usize,
}

impl Shape {
    #[inline]
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.dims().iter().product()
    }

    /// The same shape with another outermost extent.
    pub(crate) fn with_outer(mut self, extent: usize) -> Shape {
        assert!(0 < self.rank, "a scalar has no outermost extent");
        self.dims[0] = extent;
        self
    }

    /// Strides, in elements, of a tensor of this shape without gaps.
    pub(crate) fn contiguous_strides(&self) -> [usize; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        let mut step = 1;
        for axis in (0..self.rank).rev() {
            strides[axis] = step;
            step *= self.dims[axis];
        }
        strides
    }
}

impl<const RANK: usize> From<[usize; RANK]> for Shape {
    fn from(extents: [usize; RANK]) -> Self {
        const { assert!(RANK <= MAX_RANK, "a shape has at most four dimensions") };
        let mut dims = [0; MAX_RANK];
        dims[..RANK].copy_from_slice(&extents);
        Shape { dims, rank: RANK }
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dims().fmt(f)
    }
}
