//! The kernels of HSTU models, loaded for one GPU and type of activations.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::activate::cuda::ActivateKernel;
use super::attention::cuda::HstuAttentionKernels;
use super::embed_tokens::cuda::EmbedTokensKernels;
use super::gated_norm::cuda::GatedNormKernel;
use super::layer_norm::cuda::LayerNormKernels;
use super::step_rows::cuda::StepRowsKernel;
use super::top_items::cuda::TopItemsKernels;
use super::unit_rows::cuda::UnitRowsKernel;
use crate::error::Error;

pub(crate) struct HstuKernels {
    pub(crate) layer_norm: LayerNormKernels,
    pub(crate) activate: ActivateKernel,
    pub(crate) gated_norm: GatedNormKernel,
    pub(crate) unit_rows: UnitRowsKernel,
    pub(crate) top_items: TopItemsKernels,
    pub(crate) step_rows: StepRowsKernel,
    pub(crate) embed_tokens: EmbedTokensKernels,
    pub(crate) attention: HstuAttentionKernels,
}

impl HstuKernels {
    /// `on_hopper`: whether attention may use what only Hopper has.
    pub(crate) fn load(
        device: &Arc<CudaDevice>,
        activation: DType,
        deterministic: bool,
        on_hopper: bool,
    ) -> Result<Self, Error> {
        Ok(HstuKernels {
            layer_norm: LayerNormKernels::load(device, activation)?,
            activate: ActivateKernel::load(device, activation)?,
            gated_norm: GatedNormKernel::load(device, activation)?,
            unit_rows: UnitRowsKernel::load(device, activation)?,
            top_items: TopItemsKernels::load(device)?,
            step_rows: StepRowsKernel::load(device)?,
            embed_tokens: EmbedTokensKernels::load(device)?,
            attention: HstuAttentionKernels::load(device, activation, deterministic, on_hopper)?,
        })
    }
}
