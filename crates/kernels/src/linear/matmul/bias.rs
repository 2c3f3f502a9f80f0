//! What is added to each result of a product, on a GPU.

use std::ops::Range;
use std::sync::Arc;

use half::{bf16, f16};
use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device, View};

use crate::error::Error;
use crate::linear::vector::Vector;

/// A bias in device memory: as it is, and as libraries want it.
pub(crate) struct PlacedBias {
    exact: Vector,
    rounded: Buffer,
    activation: DType,
    len: usize,
}

/// One number for each row of a matrix.
#[derive(Clone, Copy)]
pub(crate) struct Bias<'a> {
    /// f32 `[rows]`
    pub exact: View<'a>,
    /// act `[rows]`: the nearest numbers
    pub rounded: View<'a>,
}

impl PlacedBias {
    pub fn place(
        device: &Arc<CudaDevice>,
        activation: DType,
        numbers: &[f32],
    ) -> Result<Self, Error> {
        let len = numbers.len();
        let mut rounded =
            Device::Cuda(Arc::clone(device)).take(len * activation.bytes(), "vectors")?;
        let bytes: Vec<u8> = match activation {
            DType::F16 => numbers.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
            DType::Bf16 => numbers.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
            _ => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
        };
        device.write(&rounded.view_mut(activation, [len]), &bytes)?;
        Ok(PlacedBias { exact: Vector::on_cuda(device, numbers)?, rounded, activation, len })
    }

    pub fn view(&self) -> Bias<'_> {
        Bias { exact: self.exact.view(), rounded: self.rounded.view(self.activation, [self.len]) }
    }
}

impl<'a> Bias<'a> {
    /// Of some rows of the matrix.
    pub fn rows(self, rows: Range<usize>) -> Bias<'a> {
        Bias { exact: self.exact.rows(rows.clone()), rounded: self.rounded.rows(rows) }
    }

    /// Panics unless it is that of so many rows.
    pub fn check(self, rows: usize) {
        let is_exact = self.exact.dims() == [rows] && self.exact.dtype() == DType::F32;
        assert!(is_exact && self.rounded.dims() == [rows], "bias of project");
    }

    /// 0 for none, else that of the exact one.
    pub fn address(bias: Option<Self>) -> u64 {
        bias.map_or(0, |bias| bias.exact.device_address())
    }
}
