//! Arrays where the ops compute, and back on the host.

use terrace_device::{Buffer, DType, Device, Element, Error, Shape, View, ViewMut};

/// An array on a device.
pub struct Placed {
    device: Device,
    buffer: Buffer,
    dtype: DType,
    shape: Shape,
}

impl Placed {
    pub fn of<T: Element>(
        device: &Device,
        values: &[T],
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        let mut placed = Self::new(device, T::DTYPE, shape.into())?;
        placed.write(View::of(values, [1, values.len()]).row_bytes(0))?;
        Ok(placed)
    }

    /// Every bit set: not a number in every type of numbers, and -1.
    pub fn poisoned(device: &Device, dtype: DType, shape: impl Into<Shape>) -> Result<Self, Error> {
        let mut placed = Self::new(device, dtype, shape.into())?;
        placed.write(&vec![0xff; placed.view().dense_bytes()])?;
        Ok(placed)
    }

    pub fn view(&self) -> View<'_> {
        self.buffer.view(self.dtype, self.shape)
    }

    pub fn view_mut(&mut self) -> ViewMut<'_> {
        self.buffer.view_mut(self.dtype, self.shape)
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &self.device {
            Device::Cpu => self.buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes),
            Device::Cuda(_) if bytes.is_empty() => {}
            Device::Cuda(device) => {
                device.write(&self.buffer.view_mut(self.dtype, self.shape), bytes)?;
            }
        }
        Ok(())
    }

    /// After everything that was launched.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        let length = self.view().dense_bytes();
        let mut bytes = vec![0; length];
        match &self.device {
            Device::Cpu => bytes.copy_from_slice(&self.buffer.bytes()[..length]),
            Device::Cuda(_) if bytes.is_empty() => {}
            Device::Cuda(device) => device.read(self.view(), &mut bytes)?,
        }
        Ok(bytes)
    }

    fn new(device: &Device, dtype: DType, shape: Shape) -> Result<Self, Error> {
        // A device has no memory of no bytes.
        let bytes = (shape.count() * dtype.bytes()).max(size_of::<u32>());
        let buffer = device.take(bytes, "slots driven by hand")?;
        Ok(Placed { device: device.clone(), buffer, dtype, shape })
    }
}

pub fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

pub(super) fn i32s(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
}
