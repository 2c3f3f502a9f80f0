//! The state dict of a file of PyTorch, tensor by tensor: what is taken is what is known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_device::HostMap;

use super::checkpoint_tensor::CheckpointTensor;
use crate::error::Error;
use crate::torch_file::{TorchFile, TorchTensor, TorchValue};
use crate::weights::torch_bytes;

pub struct StateDict {
    file: TorchFile,
    /// Those that have not been taken, by their names without what wraps the model.
    tensors: BTreeMap<String, TorchTensor>,
    /// Entries without numbers of their own, and the class of each.
    opaque: BTreeMap<String, &'static str>,
}

/// What distributed training and compiling put in front of every name.
const WRAPPERS: [&str; 2] = ["module.", "_orig_mod."];

impl StateDict {
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = TorchFile::open(path)?;
        file.check_sums()?;
        let mut tensors = BTreeMap::new();
        let mut opaque = BTreeMap::new();
        if let TorchValue::Dict(entries) = file.state_dict()? {
            for (name, value) in entries {
                let Some(name) = name.as_text() else { continue };
                match value {
                    TorchValue::Tensor(tensor) => drop(tensors.insert(name.into(), tensor.clone())),
                    TorchValue::Opaque(class) => drop(opaque.insert(name.into(), *class)),
                    _ => {}
                }
            }
        }
        while let Some(wrapper) = WRAPPERS.iter().find(|wrapper| {
            let mut names = tensors.keys().chain(opaque.keys());
            !tensors.is_empty() && names.all(|name: &String| name.starts_with(**wrapper))
        }) {
            tensors = unwrapped(tensors, wrapper);
            opaque = unwrapped(opaque, wrapper);
        }
        Ok(StateDict { file, tensors, opaque })
    }

    pub fn path(&self) -> PathBuf {
        self.file.path().into()
    }

    pub fn map(&self) -> &Arc<HostMap> {
        self.file.map()
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(TorchTensor::shape)
    }

    /// Names of tensors that have not been taken.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The class of an entry that has no numbers in this file.
    pub fn opaque(&self, name: &str) -> Option<&'static str> {
        self.opaque.get(name).copied()
    }

    /// Takes a tensor of weights.
    pub fn take(&mut self, name: &str) -> Result<CheckpointTensor, Error> {
        let tensor = self.tensors.remove(name);
        let tensor = tensor.ok_or_else(|| self.malformed(format!("it has no tensor {name:?}")))?;
        if tensor.dtype().weight_format().is_none() {
            let found = tensor.dtype().name();
            let problem = format!("tensor {name:?} is {found}; weights are float32 or 16 bits");
            return Err(self.malformed(problem));
        }
        let bytes = torch_bytes(&self.file, &tensor)?;
        Ok(CheckpointTensor::new(tensor.dtype(), tensor.shape().to_vec(), bytes))
    }

    /// The same, of a given shape.
    pub fn take_shaped(&mut self, name: &str, wanted: &[usize]) -> Result<CheckpointTensor, Error> {
        let tensor = self.take(name)?;
        if tensor.shape != wanted {
            let found = &tensor.shape;
            let problem = format!(
                "tensor {name:?} has shape {found:?}, the configuration asks for {wanted:?}"
            );
            return Err(self.malformed(problem));
        }
        Ok(tensor)
    }

    /// Drops what is of no use at inference.
    pub fn ignore(&mut self, is_ignored: impl Fn(&str) -> bool) {
        self.tensors.retain(|name, _| !is_ignored(name));
    }

    /// Nothing may be left: what is not known would be missing in the scores.
    pub fn finish(self) -> Result<(), Error> {
        if self.tensors.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.names().collect();
        let problem = format!(
            "it has tensors that this model has no place for: {}; is the configuration another's?",
            names.join(", ")
        );
        Err(self.malformed(problem))
    }

    pub fn malformed(&self, problem: String) -> Error {
        Error::Malformed { path: self.path(), problem }
    }
}

fn unwrapped<T>(entries: BTreeMap<String, T>, wrapper: &str) -> BTreeMap<String, T> {
    entries.into_iter().map(|(name, entry)| (name[wrapper.len()..].to_owned(), entry)).collect()
}
