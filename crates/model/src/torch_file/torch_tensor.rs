//! A tensor of a file: where its numbers lie, and in which order.
//!
//! It is made in one place, which checks that every element is inside its storage.

use std::ops::Range;

use super::torch_dtype::TorchDtype;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorchTensor {
    dtype: TorchDtype,
    shape: Vec<usize>,
    /// Elements from one index of a dimension to the next.
    strides: Vec<usize>,
    /// Bytes of the file, from the first element to behind the last.
    range: Range<usize>,
}

/// As many as PyTorch's iterators take.
const DIMS_MOST: usize = 64;

impl TorchTensor {
    /// A view of a storage, which is a range of the file's bytes, that begins at element `offset`.
    pub(super) fn new(
        dtype: TorchDtype,
        storage: Range<usize>,
        offset: usize,
        shape: Vec<usize>,
        strides: Vec<usize>,
    ) -> Result<Self, String> {
        if shape.len() > DIMS_MOST {
            return Err(format!("{} dimensions, the limit is {DIMS_MOST}", shape.len()));
        }
        if shape.len() != strides.len() {
            return Err(format!("{} strides for the shape {shape:?}", strides.len()));
        }
        let elements = storage.len() / dtype.bytes();
        let too_large = || {
            format!(
                "a tensor of shape {shape:?} with strides {strides:?} at element {offset} is not \
                 in its storage of {elements} elements"
            )
        };
        if shape.contains(&0) {
            let range = storage.start..storage.start;
            return Ok(TorchTensor { dtype, shape, strides, range });
        }
        let mut steps =
            shape.iter().zip(&strides).map(|(size, stride)| (size - 1).checked_mul(*stride));
        let last = steps.try_fold(offset, |sum, step| sum.checked_add(step?));
        let last = last.filter(|last| *last < elements).ok_or_else(too_large)?;
        let count = shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size));
        if count.is_none_or(|count| elements < count) {
            return Err(format!("{}: it repeats elements", too_large()));
        }
        let start = storage.start + offset * dtype.bytes();
        let range = start..storage.start + (last + 1) * dtype.bytes();
        Ok(TorchTensor { dtype, shape, strides, range })
    }

    pub fn dtype(&self) -> TorchDtype {
        self.dtype
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub fn elements(&self) -> usize {
        match self.shape.contains(&0) {
            true => 0,
            false => self.shape.iter().product(),
        }
    }

    /// The file's bytes that are this tensor, row by row; `None` where another order is stored.
    pub fn range(&self) -> Option<Range<usize>> {
        let mut expected = 1;
        for (size, stride) in self.shape.iter().zip(&self.strides).rev() {
            if self.elements() == 0 {
                break;
            }
            if *size != 1 && *stride != expected {
                return None;
            }
            expected *= size;
        }
        Some(self.range.clone())
    }

    /// Its bytes row by row, out of the file's.
    pub fn copy_to(&self, file: &[u8], to: &mut [u8]) {
        let (bytes, stored) = (self.dtype.bytes(), &file[self.range.clone()]);
        assert_eq!(to.len(), self.elements() * bytes, "bytes of a tensor");
        let mut index = vec![0; self.shape.len()];
        let mut element = 0;
        for out in to.chunks_exact_mut(bytes) {
            out.copy_from_slice(&stored[element * bytes..][..bytes]);
            for dim in (0..index.len()).rev() {
                index[dim] += 1;
                element += self.strides[dim];
                if index[dim] < self.shape[dim] {
                    break;
                }
                element -= self.strides[dim] * index[dim];
                index[dim] = 0;
            }
        }
    }
}
