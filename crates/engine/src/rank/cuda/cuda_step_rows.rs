//! Embedding rows of a step's tokens on their way to the device, where a parameter server has them.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device, View};
use terrace_kernels::{HostCopier, MappedBuffer};

use crate::error::Error;
use crate::rank::job_rows::RowDims;
use crate::rank::step_input::InputRows;
use crate::rank::step_tables::StepRows;

pub(super) struct CudaStepRows {
    items: StagedRows,
    /// Where the context is embedded apart.
    context: Option<StagedRows>,
}

struct StagedRows {
    dim: usize,
    /// Pinned.
    staging: MappedBuffer,
    rows: Buffer,
}

impl CudaStepRows {
    /// For steps of so many tokens.
    pub fn new(
        copier: &HostCopier,
        device: &Arc<CudaDevice>,
        tokens: usize,
        dims: RowDims,
    ) -> Result<Self, Error> {
        let staged = |dim: usize| -> Result<StagedRows, Error> {
            let bytes = DType::F32.bytes() * tokens * dim;
            let on = Device::Cuda(Arc::clone(device));
            Ok(StagedRows {
                dim,
                staging: MappedBuffer::new(copier, device, bytes)?,
                rows: on.take(bytes, "embedding rows of a step")?,
            })
        };
        let context = dims.context.map(staged).transpose()?;
        Ok(CudaStepRows { items: staged(dims.items)?, context })
    }

    pub fn write(&mut self, input: &InputRows) {
        self.items.write(&input.items);
        if let Some(context) = &mut self.context {
            context.write(&input.context);
        }
    }

    /// Copies what was written, with whatever is behind it.
    pub fn bring(&mut self, tokens: usize) {
        let staged = [Some(&mut self.items), self.context.as_mut()];
        for StagedRows { dim, staging, rows } in staged.into_iter().flatten() {
            staging.copy_to(&rows.view_mut(DType::F32, [tokens, *dim]));
        }
    }

    pub fn views(&self, tokens: usize) -> StepRows<'_> {
        let context = self.context.as_ref().map(|context| context.view(tokens));
        StepRows { items: self.items.view(tokens), context }
    }
}

impl StagedRows {
    fn view(&self, tokens: usize) -> View<'_> {
        self.rows.view(DType::F32, [tokens, self.dim])
    }

    fn write(&mut self, numbers: &[f32]) {
        let mut place = self.staging.view_mut(DType::F32, [numbers.len()]);
        place.as_mut_slice::<f32>().copy_from_slice(numbers);
    }
}
