//! An array where the ops compute, and its numbers on the host.

use terrace_device::{Buffer, DType, Device, Element, Shape, View, ViewMut};

use crate::error::Error;

pub struct Tensor {
    buffer: Buffer,
    dtype: DType,
    shape: Shape,
}

impl Tensor {
    /// f32 zeros; `what` names the array in the error when there is not enough memory.
    pub fn zeros(what: &'static str, shape: impl Into<Shape>) -> Result<Self, Error> {
        Self::taken(what, DType::F32, shape.into())
    }

    pub fn of<T: Element>(
        what: &'static str,
        numbers: &[T],
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        let mut tensor = Self::taken(what, T::DTYPE, shape.into())?;
        tensor.numbers_mut().copy_from_slice(numbers);
        Ok(tensor)
    }

    pub fn view(&self) -> View<'_> {
        self.buffer.view(self.dtype, self.shape)
    }

    pub fn view_mut(&mut self) -> ViewMut<'_> {
        self.buffer.view_mut(self.dtype, self.shape)
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

    pub fn copy(&self, what: &'static str) -> Result<Self, Error> {
        Self::of(what, self.numbers::<f32>(), self.shape)
    }

    fn taken(what: &'static str, dtype: DType, shape: Shape) -> Result<Self, Error> {
        // No memory has no bytes.
        let bytes = (shape.count() * dtype.bytes()).max(dtype.bytes());
        let buffer = Device::Cpu.take(bytes, what)?;
        Ok(Tensor { buffer, dtype, shape })
    }
}
