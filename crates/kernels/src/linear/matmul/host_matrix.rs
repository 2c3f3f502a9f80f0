//! A weight matrix in pinned host memory, as a GPU multiplies with it once it is brought there.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, PinnedBuffer};
use terrace_device::{DType, WorkerPool};

use super::device_matrix::{DeviceMatrix, fill_matrix};
use super::matrix_kind::MatrixKind;
use crate::error::Error;
use crate::linear::matrix::Matrix;

pub(crate) struct HostMatrix {
    kind: MatrixKind,
    rows: usize,
    columns: usize,
    memory: PinnedBuffer,
}

impl HostMatrix {
    pub fn new(
        device: &Arc<CudaDevice>,
        workers: &WorkerPool,
        kind: MatrixKind,
        weight: &Matrix,
    ) -> Result<Self, Error> {
        let (rows, columns) = (weight.rows(), weight.columns());
        let memory = device.pinned(kind.bytes(rows, columns))?;
        let mut matrix = HostMatrix { kind, rows, columns, memory };
        matrix.write(workers, weight);
        Ok(matrix)
    }

    /// In the place of what was there, which nobody may be copying.
    pub fn write(&mut self, workers: &WorkerPool, weight: &Matrix) {
        let bytes = self.bytes();
        let mut view = self.memory.view_mut(DType::U8, [1, bytes]);
        fill_matrix(self.kind, weight, workers, view.row_bytes_mut(0));
    }

    /// Takes room for it on the device.
    pub fn room(&self, device: &Arc<CudaDevice>) -> Result<DeviceMatrix, Error> {
        DeviceMatrix::new(device, self.kind, self.rows, self.columns)
    }

    pub fn fits(&self, room: &DeviceMatrix) -> bool {
        let found = (room.kind(), room.rows(), room.columns());
        found == (self.kind, self.rows, self.columns)
    }

    /// Brings it into room that fits, in the order of what is launched.
    pub fn copy_to(&self, room: &mut DeviceMatrix) {
        assert!(self.fits(room), "room for another matrix");
        self.memory.copy_to(0, &room.bytes_mut());
    }

    pub fn bytes(&self) -> usize {
        self.kind.bytes(self.rows, self.columns)
    }
}
