//! Tensors of a case, placed where the ops compute, and brought back.

use terrace_device::{Buffer, DType, Device, Element, Shape, View, ViewMut};

use super::numbers;

pub(super) struct Placed {
    device: Device,
    buffer: Buffer,
    dtype: DType,
    shape: Shape,
}

impl Placed {
    pub fn of<T: Element>(device: &Device, values: &[T], shape: impl Into<Shape>) -> Self {
        let bytes = View::of(values, [1, values.len()]).row_bytes(0);
        Self::of_bytes(device, bytes, T::DTYPE, shape.into())
    }

    /// Numbers as the type has them.
    pub fn numbers(
        device: &Device,
        dtype: DType,
        numbers: &[f32],
        shape: impl Into<Shape>,
    ) -> Self {
        let mut bytes = vec![0; numbers.len() * dtype.bytes()];
        numbers::write(&mut bytes, 0, numbers, dtype);
        Self::of_bytes(device, &bytes, dtype, shape.into())
    }

    /// For results: not a number anywhere.
    pub fn poisoned(device: &Device, dtype: DType, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        // Two bytes of ones are a NaN in every type, whichever half of an f32 they are.
        Self::of_bytes(device, &vec![0xff; shape.count() * dtype.bytes()], dtype, shape)
    }

    pub fn view(&self) -> View<'_> {
        self.buffer.view(self.dtype, self.shape)
    }

    pub fn view_mut(&mut self) -> ViewMut<'_> {
        self.buffer.view_mut(self.dtype, self.shape)
    }

    /// After everything that was launched.
    pub fn bytes(&self) -> Vec<u8> {
        match &self.device {
            Device::Cpu => self.buffer.bytes()[..self.view().dense_bytes()].to_vec(),
            Device::Cuda(device) => {
                let mut bytes = vec![0; self.view().dense_bytes()];
                device.read(self.view(), &mut bytes).expect("the device works");
                bytes
            }
        }
    }

    pub fn to_numbers(&self) -> Vec<f32> {
        numbers::read(&self.bytes(), self.dtype)
    }

    pub fn to_ids(&self) -> Vec<i32> {
        assert_eq!(self.dtype, DType::I32, "ids are i32");
        let bytes = self.bytes();
        let (words, _) = bytes.as_chunks();
        words.iter().map(|&word| i32::from_le_bytes(word)).collect()
    }

    fn of_bytes(device: &Device, bytes: &[u8], dtype: DType, shape: Shape) -> Self {
        let mut buffer = device.take(bytes.len(), "conformance").expect("a small buffer");
        match device {
            Device::Cpu => buffer.bytes_mut().copy_from_slice(bytes),
            Device::Cuda(device) => {
                let to = buffer.view_mut(dtype, shape);
                device.write(&to, bytes).expect("the device works");
            }
        }
        Placed { device: device.clone(), buffer, dtype, shape }
    }
}
