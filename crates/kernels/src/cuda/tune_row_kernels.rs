//! The kernels of tuning that go row by row, loaded for one GPU and type of activations.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use crate::elementwise::add::cuda::AddKernel;
use crate::elementwise::cast::cuda::CastKernel;
use crate::elementwise::dropout::cuda::DropoutKernel;
use crate::elementwise::embed::cuda_gradient::EmbedGradientKernel;
use crate::elementwise::gate::cuda_gradients::GateGradientsKernel;
use crate::elementwise::rms_norm::cuda_gradients::RmsNormGradientsKernel;
use crate::elementwise::rope::cuda::RopeKernel;
use crate::elementwise::scale_columns::cuda::ColumnKernels;
use crate::error::Error;
use crate::linear::lora::cuda_dora::RowNormsKernel;
use crate::loss::cross_entropy::cuda::CrossEntropyKernels;
use crate::quantise::cuda::RoundRowsKernel;

pub(crate) struct TuneRowKernels {
    pub(crate) norm_gradients: RmsNormGradientsKernel,
    pub(crate) gate_gradients: GateGradientsKernel,
    pub(crate) rope: RopeKernel,
    pub(crate) dropout: DropoutKernel,
    pub(crate) columns: ColumnKernels,
    pub(crate) add: AddKernel,
    pub(crate) cast: CastKernel,
    pub(crate) embed_gradient: EmbedGradientKernel,
    pub(crate) cross_entropy: CrossEntropyKernels,
    pub(crate) row_norms: RowNormsKernel,
    pub(crate) round_rows: RoundRowsKernel,
}

impl TuneRowKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        Ok(TuneRowKernels {
            norm_gradients: RmsNormGradientsKernel::load(device)?,
            gate_gradients: GateGradientsKernel::load(device, activation)?,
            rope: RopeKernel::load(device, activation)?,
            dropout: DropoutKernel::load(device, activation)?,
            columns: ColumnKernels::load(device, activation)?,
            add: AddKernel::load(device, activation)?,
            cast: CastKernel::load(device, activation)?,
            embed_gradient: EmbedGradientKernel::load(device)?,
            cross_entropy: CrossEntropyKernels::load(device)?,
            row_norms: RowNormsKernel::load(device, activation)?,
            round_rows: RoundRowsKernel::load(device, activation)?,
        })
    }
}
