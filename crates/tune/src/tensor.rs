//! An array where the ops compute, and its numbers on the host.

use terrace_device::{DType, Element, PooledBuffer, Shape, View, ViewMut};
use terrace_kernels::TuneOps;

use crate::error::Error;

pub struct Tensor {
    memory: PooledBuffer,
    dtype: DType,
    shape: Shape,
}

impl Tensor {
    /// f32 zeros; `what` names the array in the error when there is not enough memory.
    pub fn zeros(
        ops: &TuneOps<'_>,
        what: &'static str,
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        let mut tensor = Self::taken(ops, what, DType::F32, shape.into())?;
        ops.clear(tensor.view_mut());
        Ok(tensor)
    }

    /// f32 that the next op writes, all of it.
    pub fn unset(
        ops: &TuneOps<'_>,
        what: &'static str,
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        let mut tensor = Self::taken(ops, what, DType::F32, shape.into())?;
        if cfg!(debug_assertions) {
            tensor.numbers_mut().fill(f32::NAN);
        }
        Ok(tensor)
    }

    pub fn of<T: Element>(
        ops: &TuneOps<'_>,
        what: &'static str,
        numbers: &[T],
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        let mut tensor = Self::taken(ops, what, T::DTYPE, shape.into())?;
        tensor.numbers_mut().copy_from_slice(numbers);
        Ok(tensor)
    }

    pub fn view(&self) -> View<'_> {
        self.memory.buffer().view(self.dtype, self.shape)
    }

    pub fn view_mut(&mut self) -> ViewMut<'_> {
        self.memory.buffer_mut().view_mut(self.dtype, self.shape)
    }

    /// The same numbers under another shape of as many.
    pub fn as_shape(&self, shape: impl Into<Shape>) -> View<'_> {
        self.view().reshape(shape)
    }

    pub fn as_shape_mut(&mut self, shape: impl Into<Shape>) -> ViewMut<'_> {
        self.view_mut().reshape(shape)
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn numbers<T: Element>(&self) -> &[T] {
        self.view().as_slice()
    }

    pub fn numbers_mut<T: Element>(&mut self) -> &mut [T] {
        self.view_mut().into_slice()
    }

    pub fn copy(&self, ops: &TuneOps<'_>, what: &'static str) -> Result<Self, Error> {
        Self::of(ops, what, self.numbers::<f32>(), self.shape)
    }

    fn taken(
        ops: &TuneOps<'_>,
        what: &'static str,
        dtype: DType,
        shape: Shape,
    ) -> Result<Self, Error> {
        let memory = ops.memory().take(shape.count() * dtype.bytes(), what)?;
        Ok(Tensor { memory, dtype, shape })
    }
}
