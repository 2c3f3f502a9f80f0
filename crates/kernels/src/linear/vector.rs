//! A vector of weights where a device wants it.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device, View};

use crate::error::Error;

/// A few f32 numbers where a device wants them: a norm's weight, a rotation's frequencies.
pub struct Vector {
    buffer: Buffer,
    len: usize,
}

impl Vector {
    pub(crate) fn on_cpu(values: &[f32]) -> Result<Self, Error> {
        let mut buffer = Buffer::zeroed(size_of_val(values), "vectors")?;
        buffer.view_mut(DType::F32, [values.len()]).as_mut_slice().copy_from_slice(values);
        Ok(Vector { buffer, len: values.len() })
    }

    pub(crate) fn on_cuda(device: &Arc<CudaDevice>, values: &[f32]) -> Result<Self, Error> {
        let home = Device::Cuda(Arc::clone(device));
        let mut buffer = home.take(size_of_val(values), "vectors")?;
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        device.write(&buffer.view_mut(DType::F32, [values.len()]), &bytes)?;
        Ok(Vector { buffer, len: values.len() })
    }

    /// f32 `[len]`
    pub fn view(&self) -> View<'_> {
        self.buffer.view(DType::F32, [self.len])
    }
}
