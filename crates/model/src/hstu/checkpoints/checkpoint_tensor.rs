//! A tensor of a checkpoint, out of one or several places.

use crate::error::Error;
use crate::tensor_info::TensorInfo;
use crate::torch_file::{TorchDtype, TorchItem, TorchItemTensor};
use crate::weights::StoredBytes;

/// Its bytes are those of all parts, one behind the other: tables that several ranks have written
/// are not put together in memory before somebody asks for that.
#[derive(Clone)]
pub struct CheckpointTensor {
    pub dtype: TorchDtype,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
    pub parts: Vec<StoredBytes>,
}

impl CheckpointTensor {
    /// Some bytes in one place.
    pub fn new(dtype: TorchDtype, shape: Vec<usize>, bytes: StoredBytes) -> Self {
        CheckpointTensor { dtype, shape, parts: vec![bytes] }
    }

    /// f32 numbers that are all zero.
    pub fn zeros(shape: Vec<usize>) -> Result<Self, Error> {
        let bytes = shape.iter().product::<usize>() * TorchDtype::F32.bytes();
        Ok(Self::new(TorchDtype::F32, shape, StoredBytes::filled(bytes, |_| {})?))
    }

    /// From 0 on.
    pub fn counted(count: usize) -> Result<Self, Error> {
        let bytes = StoredBytes::filled(count * TorchDtype::I64.bytes(), |to| {
            let numbers = to.as_chunks_mut().0.iter_mut().zip(0i64..);
            numbers.for_each(|(bytes, number)| *bytes = number.to_le_bytes());
        });
        Ok(Self::new(TorchDtype::I64, vec![count], bytes?))
    }

    pub fn bytes(&self) -> usize {
        self.parts.iter().map(StoredBytes::len).sum()
    }

    /// All bytes in one place; several parts are copied.
    pub fn merged(&self) -> Result<StoredBytes, Error> {
        if let [whole] = &self.parts[..] {
            return Ok(whole.clone());
        }
        StoredBytes::filled(self.bytes(), |mut to| {
            for part in &self.parts {
                let (front, rest) = to.split_at_mut(part.len());
                front.copy_from_slice(part.bytes());
                to = rest;
            }
        })
    }

    pub fn info(&self) -> Option<TensorInfo> {
        let format = self.dtype.weight_format()?;
        Some(TensorInfo { format, shape: self.shape.clone() })
    }

    /// A matrix across: `[columns, rows]`.
    pub fn transposed(&self) -> Result<Self, Error> {
        let &[rows, columns] = &self.shape[..] else { panic!("a matrix is transposed") };
        let (from, width) = (self.merged()?, self.dtype.bytes());
        let bytes = StoredBytes::filled(from.len(), |to| {
            for (at, number) in to.chunks_exact_mut(width).enumerate() {
                let (column, row) = (at / rows, at % rows);
                number.copy_from_slice(&from.bytes()[(row * columns + column) * width..][..width]);
            }
        })?;
        Ok(Self::new(self.dtype, vec![columns, rows], bytes))
    }

    /// Rows in another order; of a vector, its numbers.
    pub fn reordered(&self, order: &[usize]) -> Result<Self, Error> {
        assert_eq!(order.len(), self.shape[0], "a row for each");
        let from = self.merged()?;
        let row_bytes = from.len() / order.len().max(1);
        let bytes = StoredBytes::filled(from.len(), |to| {
            for (to, row) in to.chunks_exact_mut(row_bytes.max(1)).zip(order) {
                to.copy_from_slice(&from.bytes()[row * row_bytes..][..row_bytes]);
            }
        })?;
        Ok(Self::new(self.dtype, self.shape.clone(), bytes))
    }

    /// A matrix out of numbers behind each other, from the number `first` on.
    pub fn table(&self, first: usize, [rows, dim]: [usize; 2]) -> Result<Self, Error> {
        let (start, bytes) = (first * self.dtype.bytes(), rows * dim * self.dtype.bytes());
        let part = self.merged()?.part(start..start + bytes)?;
        Ok(Self::new(self.dtype, vec![rows, dim], part))
    }

    /// Rows of one below those of the other.
    pub fn below(mut self, other: Self) -> Self {
        assert_eq!(self.dtype, other.dtype, "numbers of one type");
        assert_eq!(self.shape[1..], other.shape[1..], "rows of one width");
        self.shape[0] += other.shape[0];
        self.parts.extend(other.parts);
        self
    }

    /// As it is written to a file of PyTorch.
    pub fn as_item(&self) -> TorchItem<'_> {
        TorchItem::Tensor(TorchItemTensor {
            dtype: self.dtype,
            shape: self.shape.clone(),
            parts: self.parts.iter().map(|part| part.bytes()).collect(),
        })
    }
}
