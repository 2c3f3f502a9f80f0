//! Files of PyTorch as weights: one file, or shards that each have some of the tensors.

use std::sync::Arc;

use super::stored_bytes::StoredBytes;
use super::{Stored, Weights};
use crate::error::Error;
use crate::tensor_info::TensorInfo;
use crate::torch_file::{TorchDtype, TorchFile, TorchTensor, TorchValue};

impl Weights {
    /// The state dicts of files, together. What is in a dict within a state dict has its key in
    /// front of its name.
    pub fn from_torch(files: &[TorchFile]) -> Result<Weights, Error> {
        let mut weights = Weights::empty();
        for file in files {
            weights.add_torch(file, file.state_dict()?)?;
        }
        Ok(weights)
    }

    /// Adds the tensors below a value of a file.
    fn add_torch(&mut self, file: &TorchFile, value: &TorchValue) -> Result<(), Error> {
        for (name, tensor) in value.tensors() {
            if self.tensors.contains_key(&name) || self.foreign.contains_key(&name) {
                return Err(file.malformed(format!("tensor {name:?} is there twice")));
            }
            self.add_torch_tensor(name, file, tensor)?;
        }
        self.files.push(Arc::clone(file.map()));
        Ok(())
    }

    fn add_torch_tensor(
        &mut self,
        name: String,
        file: &TorchFile,
        tensor: &TorchTensor,
    ) -> Result<(), Error> {
        let shape = tensor.shape().to_vec();
        if shape.contains(&0) {
            self.foreign.insert(name, format!("nothing ({shape:?})"));
            return Ok(());
        }
        match tensor.dtype().weight_format() {
            Some(format) => {
                let bytes = torch_bytes(file, tensor)?;
                self.tensors.insert(name, Stored { info: TensorInfo { format, shape }, bytes });
            }
            None => {
                if tensor.dtype() == TorchDtype::I64 && shape.len() == 1 {
                    self.integers.insert(name.clone(), torch_bytes(file, tensor)?);
                }
                self.foreign.insert(name, tensor.dtype().name().to_owned());
            }
        }
        Ok(())
    }
}

/// In place, or copied where the file has another order.
pub fn torch_bytes(file: &TorchFile, tensor: &TorchTensor) -> Result<StoredBytes, Error> {
    if let Some(range) = tensor.range() {
        return Ok(StoredBytes::mapped(file.map(), range));
    }
    let bytes = tensor.elements() * tensor.dtype().bytes();
    StoredBytes::filled(bytes, |to| tensor.copy_to(file.map().bytes(), to))
}
