//! A model as configuration and tensors, under the names of our own folder.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_device::HostMap;

use super::checkpoint_tensor::CheckpointTensor;
use crate::error::Error;
use crate::hstu::hstu_config::{HstuConfig, HstuTask, UvqkOrder};
use crate::hstu::hstu_files::HstuFiles;
use crate::hstu::layer_tensors::UvqkLayout;
use crate::torch_file::TorchDtype;
use crate::weights::Weights;

pub struct HstuCheckpoint {
    pub config: HstuConfig,
    pub(super) tensors: BTreeMap<String, CheckpointTensor>,
    /// The files behind them, each once.
    pub(super) files: Vec<Arc<HostMap>>,
}

impl HstuCheckpoint {
    /// Of our own folder.
    pub fn of_files(files: &HstuFiles) -> Self {
        let weights = files.weights();
        let mut tensors = BTreeMap::new();
        let retrieves = files.config.task == HstuTask::Retrieval;
        // Models that retrieve have no use for a head.
        let is_used = |name: &&str| !(retrieves && name.starts_with("head."));
        for name in weights.names().filter(is_used) {
            let (info, bytes) = weights.stored_bytes(name).expect("it was listed");
            let dtype = TorchDtype::of_weights(info.format).expect("safetensors have such alone");
            let tensor = CheckpointTensor::new(dtype, info.shape.clone(), bytes.clone());
            tensors.insert(name.to_owned(), tensor);
        }
        for (name, bytes) in weights.stored_integers() {
            let count = bytes.len() / TorchDtype::I64.bytes();
            let tensor = CheckpointTensor::new(TorchDtype::I64, vec![count], bytes.clone());
            tensors.insert(name.to_owned(), tensor);
        }
        HstuCheckpoint { config: files.config.clone(), tensors, files: weights.files() }
    }

    /// To be computed with: what several ranks have written is put together in memory, all else
    /// stays in its file.
    pub fn into_files(self, name: String) -> Result<HstuFiles, Error> {
        let (mut weights, mut integers) = (Vec::new(), BTreeMap::new());
        for (name, tensor) in self.tensors {
            match tensor.info() {
                Some(info) => weights.push((name, info, tensor.merged()?)),
                None => drop(integers.insert(name, tensor.merged()?)),
            }
        }
        let weights = Weights::assembled(weights, integers, self.files);
        let text = self.config.to_json();
        Ok(HstuFiles::of_weights(name, self.config, text, weights))
    }

    /// The same model with the outputs of its projections in another order.
    pub fn with_layout(mut self, layout: UvqkOrder) -> Result<Self, Error> {
        if self.config.uvqk_layout == layout {
            return Ok(self);
        }
        let spec = self.config.layer_spec();
        let per_head = UvqkLayout::PerHead.order(&spec);
        let order = match layout {
            UvqkOrder::Blocked => per_head,
            UvqkOrder::PerHead => {
                let mut order = vec![0; per_head.len()];
                per_head.iter().enumerate().for_each(|(at, output)| order[*output] = at);
                order
            }
        };
        for layer in 0..self.config.num_layers {
            for part in ["weight", "bias"] {
                let name = format!("layers.{layer}.uvqk.{part}");
                if let Some(tensor) = self.tensors.get_mut(&name) {
                    if tensor.shape.first() != Some(&order.len()) {
                        let (found, wanted) = (tensor.shape.clone(), vec![order.len()]);
                        return Err(Error::TensorShape { name, found, wanted });
                    }
                    *tensor = tensor.reordered(&order)?;
                }
            }
        }
        self.config.uvqk_layout = layout;
        Ok(self)
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.values().map(|tensor| tensor.bytes() as u64).sum()
    }

    pub(super) fn tensor(&self, name: &str) -> Result<&CheckpointTensor, Error> {
        self.tensors.get(name).ok_or_else(|| Error::TensorMissing { name: name.to_owned() })
    }

    /// Layers of an mlp, from its first on.
    pub(super) fn mlp_layers(&self, mlp: &str) -> usize {
        let has = |layer: &usize| self.tensors.contains_key(&format!("{mlp}.{layer}.weight"));
        (0..).take_while(has).count()
    }
}
