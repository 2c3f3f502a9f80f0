//! The kernels of click-through models, loaded for one GPU and type of activations.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::activation::cuda::ActivateRowsKernel;
use super::arrange::cuda::ArrangeKernels;
use super::attend_sequences::cuda::AttendSequencesKernel;
use super::combine::cuda::CombineKernel;
use super::cross_step::cuda::CrossStepKernel;
use super::dice::cuda::DiceKernel;
use super::fm_order2::cuda::FmOrder2Kernel;
use super::interact::cuda::InteractKernels;
use super::multi_cross::cuda::MultiCrossKernel;
use super::norm_rows::cuda::NormRowsKernel;
use super::pool_rows::cuda::PoolRowsKernel;
use super::reduce_rows::cuda::ReduceRowsKernels;
use super::repeat::cuda::RepeatKernel;
use super::scale_shift::cuda::ScaleShiftKernel;
use super::sequence_mask::cuda::SequenceMaskKernel;
use super::softmax_rows::cuda::SoftmaxRowsKernel;
use super::weight_multiply::cuda::WeightMultiplyKernel;
use crate::error::Error;

pub(crate) struct CtrKernels {
    pub(crate) activate_rows: ActivateRowsKernel,
    pub(crate) arrange: ArrangeKernels,
    pub(crate) attend_sequences: AttendSequencesKernel,
    pub(crate) combine: CombineKernel,
    pub(crate) cross_step: CrossStepKernel,
    pub(crate) dice: DiceKernel,
    pub(crate) fm_order2: FmOrder2Kernel,
    pub(crate) interact: InteractKernels,
    pub(crate) multi_cross: MultiCrossKernel,
    pub(crate) norm_rows: NormRowsKernel,
    pub(crate) pool_rows: PoolRowsKernel,
    pub(crate) reduce_rows: ReduceRowsKernels,
    pub(crate) repeat: RepeatKernel,
    pub(crate) scale_shift: ScaleShiftKernel,
    pub(crate) sequence_mask: SequenceMaskKernel,
    pub(crate) softmax_rows: SoftmaxRowsKernel,
    pub(crate) weight_multiply: WeightMultiplyKernel,
}

impl CtrKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        Ok(CtrKernels {
            activate_rows: ActivateRowsKernel::load(device, activation)?,
            arrange: ArrangeKernels::load(device, activation)?,
            attend_sequences: AttendSequencesKernel::load(device, activation)?,
            combine: CombineKernel::load(device, activation)?,
            cross_step: CrossStepKernel::load(device, activation)?,
            dice: DiceKernel::load(device, activation)?,
            fm_order2: FmOrder2Kernel::load(device, activation)?,
            interact: InteractKernels::load(device, activation)?,
            multi_cross: MultiCrossKernel::load(device, activation)?,
            norm_rows: NormRowsKernel::load(device, activation)?,
            pool_rows: PoolRowsKernel::load(device, activation)?,
            reduce_rows: ReduceRowsKernels::load(device, activation)?,
            repeat: RepeatKernel::load(device, activation)?,
            scale_shift: ScaleShiftKernel::load(device, activation)?,
            sequence_mask: SequenceMaskKernel::load(device, activation)?,
            softmax_rows: SoftmaxRowsKernel::load(device, activation)?,
            weight_multiply: WeightMultiplyKernel::load(device, activation)?,
        })
    }
}
