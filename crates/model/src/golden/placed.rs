//! Numbers where the ops compute, and back.

use terrace_device::{Buffer, DType, Device, Shape, View, ViewMut};

use crate::error::Error;

/// Numbers where the ops compute.
pub(super) struct Placed {
    buffer: Buffer,
    dtype: DType,
    shape: Shape,
}

impl Placed {
    pub fn i32s(device: &Device, values: &[i32], shape: impl Into<Shape>) -> Result<Self, Error> {
        Self::of(device, DType::I32, values.iter().flat_map(|it| it.to_le_bytes()), shape.into())
    }

    pub fn i64s(device: &Device, values: &[i64], shape: impl Into<Shape>) -> Result<Self, Error> {
        Self::of(device, DType::I64, values.iter().flat_map(|it| it.to_le_bytes()), shape.into())
    }

    pub fn f32s(device: &Device, values: &[f32], shape: impl Into<Shape>) -> Result<Self, Error> {
        Self::of(device, DType::F32, values.iter().flat_map(|it| it.to_le_bytes()), shape.into())
    }

    pub fn zeros(device: &Device, dtype: DType, shape: impl Into<Shape>) -> Result<Self, Error> {
        let shape = shape.into();
        let zeros = std::iter::repeat_n(0, shape.count() * dtype.bytes());
        Self::of(device, dtype, zeros, shape)
    }

    fn of(
        device: &Device,
        dtype: DType,
        bytes: impl Iterator<Item = u8>,
        shape: Shape,
    ) -> Result<Self, Error> {
        let bytes: Vec<u8> = bytes.collect();
        // A device has no memory of no bytes.
        let mut buffer = device.take(bytes.len().max(8), "arrays of a step")?;
        match device {
            Device::Cpu => buffer.bytes_mut()[..bytes.len()].copy_from_slice(&bytes),
            Device::Cuda(_) if bytes.is_empty() => {}
            Device::Cuda(device) => device.write(&buffer.view_mut(dtype, shape), &bytes)?,
        }
        Ok(Placed { buffer, dtype, shape })
    }

    pub fn view(&self) -> View<'_> {
        self.buffer.view(self.dtype, self.shape)
    }

    pub fn view_mut(&mut self) -> ViewMut<'_> {
        self.buffer.view_mut(self.dtype, self.shape)
    }

    /// All bytes, after everything that was launched.
    pub fn bytes(&self, device: &Device) -> Result<Vec<u8>, Error> {
        let count = self.shape.count() * self.dtype.bytes();
        match device {
            Device::Cpu => Ok(self.buffer.bytes()[..count].to_vec()),
            Device::Cuda(device) => {
                let mut bytes = vec![0; count];
                device.read(self.view(), &mut bytes)?;
                Ok(bytes)
            }
        }
    }

    /// All numbers of f32s, after everything that was launched.
    pub fn numbers(&self, device: &Device) -> Result<Vec<f32>, Error> {
        assert_eq!(self.dtype, DType::F32, "numbers");
        let bytes = self.bytes(device)?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}

/// The rows of an f32 matrix, after everything that was launched.
pub(super) fn read_rows(device: &Device, matrix: View<'_>) -> Result<Vec<Vec<f32>>, Error> {
    let [rows, columns] = matrix.dims();
    match device {
        Device::Cpu => Ok((0..rows).map(|row| matrix.row(row).to_vec()).collect()),
        Device::Cuda(device) => {
            let mut bytes = vec![0; rows * columns * DType::F32.bytes()];
            device.read(matrix, &mut bytes)?;
            let numbers = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            let numbers: Vec<f32> = numbers.collect();
            Ok(numbers.chunks(columns).map(<[f32]>::to_vec).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_placed_can_be_read() {
        let placed = Placed::i32s(&Device::Cpu, &[1, -2, 3, 4], [2, 2]).unwrap();
        assert_eq!(placed.view().as_slice::<i32>(), [1, -2, 3, 4]);
        assert_eq!(Placed::i32s(&Device::Cpu, &[], [0, 2]).unwrap().view().dims(), [0, 2]);
        let numbers = [0.5f32, 1.5, 2.5, 3.5];
        let rows = read_rows(&Device::Cpu, View::of(&numbers, [2, 2])).unwrap();
        assert_eq!(rows, [[0.5, 1.5], [2.5, 3.5]]);
        let placed = Placed::f32s(&Device::Cpu, &numbers, [4]).unwrap();
        assert_eq!(placed.numbers(&Device::Cpu).unwrap(), numbers);
    }
}
