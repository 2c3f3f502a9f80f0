//! The shape of a tensor of a click-through network: `[samples * rows, dims..]`.
//!
//! Most tensors have one row for each sample. One that was reshaped may have several; none has
//! rows of more than one sample.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtrShape {
    rows: usize,
    dims: Vec<usize>,
}

impl CtrShape {
    /// Most numbers that a tensor can have for one sample: 64 MiB of them.
    pub const MAX_NUMBERS: usize = 1 << 24;
    /// Most extents after the rows.
    pub const MAX_DIMS: usize = 3;

    /// `rows` of a sample, each of these extents. What is wrong with them, otherwise.
    pub fn new(rows: usize, dims: &[usize]) -> Result<Self, String> {
        let shape = CtrShape { rows, dims: dims.to_vec() };
        let extents = [rows].into_iter().chain(dims.iter().copied());
        let numbers = extents.clone().try_fold(1, |all: usize, extent| {
            all.checked_mul(extent).filter(|all| *all <= CtrShape::MAX_NUMBERS)
        });
        match numbers {
            _ if dims.is_empty() || CtrShape::MAX_DIMS < dims.len() => {
                Err(format!("{shape} has {} extents; 2 to 4 are possible", dims.len() + 1))
            }
            _ if extents.into_iter().any(|extent| extent == 0) => Err(format!("{shape} is empty")),
            None => {
                let most = CtrShape::MAX_NUMBERS;
                Err(format!("{shape} has more than {most} numbers for a sample"))
            }
            Some(_) => Ok(shape),
        }
    }

    /// One row for each sample.
    pub fn of_samples(dims: &[usize]) -> Result<Self, String> {
        CtrShape::new(1, dims)
    }

    /// Of each sample.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The extents of a row.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Numbers of a row.
    pub fn width(&self) -> usize {
        self.dims.iter().product()
    }

    /// Numbers of a sample.
    pub fn numbers(&self) -> usize {
        self.rows * self.width()
    }

    /// The innermost extent.
    pub fn last(&self) -> usize {
        *self.dims.last().expect("a shape has extents")
    }

    /// The same with another innermost extent.
    pub fn with_last(&self, last: usize) -> Result<Self, String> {
        let before = &self.dims[..self.dims.len() - 1];
        CtrShape::new(self.rows, &[before, &[last]].concat())
    }
}

impl fmt::Display for CtrShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows {
            1 => write!(f, "[samples")?,
            rows => write!(f, "[samples * {rows}")?,
        }
        self.dims.iter().try_for_each(|dim| write!(f, ", {dim}"))?;
        write!(f, "]")
    }
}
