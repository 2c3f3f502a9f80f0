//! A click-through model on a device: a network placed with its weights.

use terrace_device::Workspace;
use terrace_kernels::Ops;

use super::ctr_compute::{CtrPlacing, PlacedCtrLayer};
use super::ctr_inputs::{CtrInputs, CtrOutput};
use super::ctr_layer::CtrForm;
use super::ctr_network::CtrNetwork;
use super::ctr_weights::CtrWeights;
use super::layer_params::LayerParams;
use super::plan::CtrPlan;
use crate::error::Error;

pub struct CtrModel {
    inputs: CtrInputs,
    outputs: Vec<CtrOutput>,
    mixes_samples: bool,
    pub(super) plan: CtrPlan,
    /// By node; those that compute.
    pub(super) layers: Vec<Option<Box<dyn PlacedCtrLayer>>>,
}

impl CtrModel {
    pub fn place(ops: &Ops, network: &CtrNetwork, weights: &CtrWeights) -> Result<Self, Error> {
        CtrModel::place_with(ops, network, weights, ops.product_multiple())
    }

    /// With inputs of products that have a multiple of so many columns.
    pub(crate) fn place_with(
        ops: &Ops,
        network: &CtrNetwork,
        weights: &CtrWeights,
        product_multiple: usize,
    ) -> Result<Self, Error> {
        ops.check_ctr()?;
        weights.check(network)?;
        let graph = &network.graph;
        let plan = CtrPlan::new(graph, product_multiple);
        let mut layers = Vec::with_capacity(graph.nodes.len());
        for (index, node) in graph.nodes.iter().enumerate() {
            let CtrForm::Computes(compute) = graph.form(node) else {
                layers.push(None);
                continue;
            };
            let count: usize =
                node.params.iter().map(|param| param.shape[0] * param.shape[1]).sum();
            let numbers = &weights.numbers[node.first_number..node.first_number + count];
            let placing = CtrPlacing {
                ops,
                bottoms: &graph.shapes(&node.bottoms),
                params: LayerParams::new(&node.params, numbers),
                activation: plan.activations[index],
                product_multiple,
            };
            let is_needed = plan.is_needed[index];
            layers.push(is_needed.then(|| compute.place(&placing)).transpose()?);
        }
        Ok(CtrModel {
            inputs: network.inputs().clone(),
            outputs: network.outputs().to_vec(),
            mixes_samples: network.mixes_samples(),
            plan,
            layers,
        })
    }

    pub fn inputs(&self) -> &CtrInputs {
        &self.inputs
    }

    pub fn outputs(&self) -> &[CtrOutput] {
        &self.outputs
    }

    /// Columns of the result.
    pub fn output_width(&self) -> usize {
        self.outputs.iter().map(|output| output.width).sum()
    }

    /// See [`CtrNetwork::mixes_samples`].
    pub fn mixes_samples(&self) -> bool {
        self.mixes_samples
    }

    /// Workspace bytes of a step of so many samples, or fewer.
    pub fn workspace_bytes(&self, ops: &Ops, samples: usize) -> usize {
        let slot = |numbers: &usize| {
            let numbers = numbers.saturating_mul(samples);
            match numbers.checked_mul(ops.activation().bytes()) {
                Some(_) => Workspace::bytes_for(ops.activation(), [numbers]),
                None => usize::MAX,
            }
        };
        self.plan.slots.iter().map(slot).fold(0, usize::saturating_add)
    }
}
