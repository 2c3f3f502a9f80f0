//! Files that PyTorch writes with `torch.save` (`.pth`, `.pt`, `.bin`, `.ckpt`), as data.
//!
//! Such a file is a zip archive of a pickle and of storages. A pickle is a program for Python's
//! objects; here it is read by a stack machine of its own that knows a short list of names, those
//! of tensors and containers, and refuses every other by its name: nothing of a file is executed.
//! Tensors are byte ranges of the mapped file, checked against their storages when it is opened.

mod archive;
mod global;
mod opcode;
mod pickle_error;
mod pickle_reader;
mod torch_dtype;
mod torch_tensor;
mod torch_value;
mod torch_writer;
mod unpickler;
mod value_tree;

use std::path::Path;
use std::sync::Arc;

use terrace_device::HostMap;

use self::archive::Archive;
use self::unpickler::Unpickler;
use crate::error::Error;

pub use self::torch_dtype::TorchDtype;
pub use self::torch_tensor::TorchTensor;
pub use self::torch_value::TorchValue;
pub use self::torch_writer::{TorchItem, TorchItemTensor};

pub struct TorchFile {
    map: Arc<HostMap>,
    value: TorchValue,
}

/// Keys under which checkpoints keep the weights, beside what training needs.
const STATE_DICT_KEYS: [&str; 3] = ["model_state_dict", "state_dict", "model"];

impl TorchFile {
    pub fn open(path: &Path) -> Result<Self, Error> {
        let map = Arc::new(HostMap::open(path)?);
        let malformed = |problem| Error::Malformed { path: path.into(), problem };
        let archive = Archive::read(map.bytes()).map_err(malformed)?;
        let value = Unpickler::new(&archive.pickle, &archive.storages).run();
        let value = value.map_err(|error| malformed(error.to_string()))?;
        Ok(TorchFile { map, value })
    }

    /// Reads the whole file and compares it with its checksums, which opening it does not do:
    /// whoever takes some tensors of a large file need not read the others.
    pub fn check_sums(&self) -> Result<(), Error> {
        archive::check_sums(self.map.bytes()).map_err(|problem| self.malformed(problem))
    }

    pub fn path(&self) -> &Path {
        self.map.path()
    }

    pub fn map(&self) -> &Arc<HostMap> {
        &self.map
    }

    /// What was saved.
    pub fn value(&self) -> &TorchValue {
        &self.value
    }

    /// The bytes of a tensor of this file, row by row; `None` where they lie in another order.
    pub fn bytes_in_place(&self, tensor: &TorchTensor) -> Option<&[u8]> {
        tensor.range().map(|range| &self.map.bytes()[range])
    }

    /// The weights: what was saved, or what it has under the usual keys.
    pub fn state_dict(&self) -> Result<&TorchValue, Error> {
        let has_tensors = |value: &TorchValue| match value {
            TorchValue::Dict(entries) => {
                entries.iter().any(|(_, value)| matches!(value, TorchValue::Tensor(_)))
            }
            _ => false,
        };
        let nested = STATE_DICT_KEYS.iter().filter_map(|key| self.value.get(key));
        let found = [&self.value].into_iter().chain(nested).find(|value| has_tensors(value));
        found.ok_or_else(|| {
            let keys = STATE_DICT_KEYS.join(", ");
            self.malformed(format!("it has no tensors by name, neither at its top nor in {keys}"))
        })
    }

    pub(crate) fn malformed(&self, problem: String) -> Error {
        Error::Malformed { path: self.path().into(), problem }
    }
}
