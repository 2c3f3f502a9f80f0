//! The tensors of a model, by name, wherever they are stored.
//!
//! Nothing is copied when a model is opened, unless a file has a tensor in another order than row
//! by row: a [`Matrix`] is a range of the mapped file, and only vectors, which are small, are
//! widened into memory of their own. Every byte range is checked
//! when a file is opened, so reading a tensor afterwards cannot leave the file.

mod safetensors;
mod stored_bytes;
mod torch;

use std::collections::BTreeMap;
use std::sync::Arc;

use half::{bf16, f16};
use terrace_device::HostMap;
use terrace_kernels::{Matrix, WeightFormat};

pub(crate) use self::stored_bytes::StoredBytes;
pub(crate) use self::torch::torch_bytes;
use crate::error::Error;
use crate::gguf::GgufFile;
use crate::tensor_info::TensorInfo;

pub struct Weights {
    tensors: BTreeMap<String, Stored>,
    /// Tensors of types that are not weights (integers, masks): name and type. A file may carry
    /// them as long as nobody asks for one.
    foreign: BTreeMap<String, String>,
    /// Those of them that are lists of 64-bit integers.
    integers: BTreeMap<String, StoredBytes>,
    /// The mapped files, each once.
    files: Vec<Arc<HostMap>>,
}

/// A tensor and where it lies.
struct Stored {
    info: TensorInfo,
    bytes: StoredBytes,
}

impl Weights {
    pub fn from_gguf(file: &GgufFile) -> Weights {
        let mut weights = Weights::empty();
        for (name, tensor) in file.tensors() {
            let bytes = StoredBytes::mapped(file.map(), tensor.range.clone());
            weights.tensors.insert(name.to_owned(), Stored { info: tensor.info.clone(), bytes });
        }
        weights.files.push(Arc::clone(file.map()));
        weights
    }

    /// All tensors that can be read, in order of their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// All tensors, those of types that cannot be read too.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = &str> {
        self.names().chain(self.foreign.keys().map(String::as_str))
    }

    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|stored| &stored.info)
    }

    /// A tensor of two dimensions, in place.
    pub fn matrix(&self, name: &str) -> Result<Matrix, Error> {
        let stored = self.stored(name)?;
        let &[rows, columns] = stored.info.shape.as_slice() else {
            return Err(stored.wrong_rank(name, 2));
        };
        Ok(Matrix::new(stored.info.format, rows, columns, stored.bytes.buffer()))
    }

    /// A tensor of one dimension (a norm, a bias), widened to f32.
    pub fn vector(&self, name: &str) -> Result<Vec<f32>, Error> {
        let stored = self.stored(name)?;
        if stored.info.shape.len() != 1 {
            return Err(stored.wrong_rank(name, 1));
        }
        self.numbers(name)
    }

    /// All numbers of a tensor of any shape, widened to f32.
    pub(crate) fn numbers(&self, name: &str) -> Result<Vec<f32>, Error> {
        let stored = self.stored(name)?;
        widen(stored.info.format, stored.bytes.bytes()).ok_or_else(|| Error::TensorFormat {
            name: name.into(),
            found: stored.info.format.name().into(),
            wanted: "F32, F16, BF16",
        })
    }

    /// A list of 64-bit integers, if there is one of this name.
    pub fn integers(&self, name: &str) -> Option<Vec<i64>> {
        let numbers = self.integers.get(name)?.bytes().as_chunks().0;
        Some(numbers.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
    }

    /// Bytes of all tensors as they are stored.
    pub fn total_bytes(&self) -> u64 {
        self.tensors.values().map(|stored| stored.bytes.len() as u64).sum()
    }

    /// The mapped files, each once.
    pub fn files(&self) -> Vec<Arc<HostMap>> {
        self.files.clone()
    }

    /// A tensor as it is stored.
    pub(crate) fn stored_bytes(&self, name: &str) -> Option<(&TensorInfo, &StoredBytes)> {
        self.tensors.get(name).map(|stored| (&stored.info, &stored.bytes))
    }

    /// The lists of 64-bit integers.
    pub(crate) fn stored_integers(&self) -> impl Iterator<Item = (&str, &StoredBytes)> {
        self.integers.iter().map(|(name, bytes)| (name.as_str(), bytes))
    }

    /// Tensors out of files, which were put together elsewhere.
    pub(crate) fn assembled(
        tensors: impl IntoIterator<Item = (String, TensorInfo, StoredBytes)>,
        integers: BTreeMap<String, StoredBytes>,
        files: Vec<Arc<HostMap>>,
    ) -> Weights {
        let stored = |(name, info, bytes)| (name, Stored { info, bytes });
        let tensors = tensors.into_iter().map(stored).collect();
        Weights { tensors, foreign: BTreeMap::new(), integers, files }
    }

    fn empty() -> Weights {
        Weights {
            tensors: BTreeMap::new(),
            foreign: BTreeMap::new(),
            integers: BTreeMap::new(),
            files: Vec::new(),
        }
    }

    fn stored(&self, name: &str) -> Result<&Stored, Error> {
        self.tensors.get(name).ok_or_else(|| match self.foreign.get(name) {
            Some(found) => Error::TensorFormat {
                name: name.into(),
                found: found.clone(),
                wanted: "F32, F16, BF16",
            },
            None => Error::TensorMissing { name: name.into() },
        })
    }
}

impl Stored {
    fn wrong_rank(&self, name: &str, wanted: usize) -> Error {
        Error::TensorRank { name: name.into(), found: self.info.shape.clone(), wanted }
    }
}

/// The numbers as f32, or `None` for a block format. The bytes need no alignment.
fn widen(format: WeightFormat, bytes: &[u8]) -> Option<Vec<f32>> {
    fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|&chunk| read(chunk)).collect()
    }
    match format {
        WeightFormat::F32 => Some(each(bytes, f32::from_le_bytes)),
        WeightFormat::F16 => Some(each(bytes, |half| f16::from_le_bytes(half).to_f32())),
        WeightFormat::Bf16 => Some(each(bytes, |half| bf16::from_le_bytes(half).to_f32())),
        _ => None,
    }
}
