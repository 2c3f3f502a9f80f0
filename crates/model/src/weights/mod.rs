//! The tensors of a model, by name, wherever they are stored.
//!
//! Nothing is copied when a model is opened: a [`Matrix`] is a range of the mapped file, and only
//! vectors, which are small, are widened into memory of their own. Every byte range is checked
//! when a file is opened, so reading a tensor afterwards cannot leave the file.

mod safetensors;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use half::{bf16, f16};
use terrace_device::{Buffer, HostMap};
use terrace_kernels::{Matrix, WeightFormat};

use crate::error::Error;
use crate::gguf::GgufFile;
use crate::tensor_info::TensorInfo;

pub struct Weights {
    tensors: BTreeMap<String, Stored>,
    /// Tensors of types that are not weights (integers, masks): name and type. A file may carry
    /// them as long as nobody asks for one.
    foreign: BTreeMap<String, String>,
    /// Those of them that are lists of 64-bit integers: where their bytes lie.
    integers: BTreeMap<String, (Arc<HostMap>, Range<usize>)>,
}

/// A tensor and where it lies.
struct Stored {
    info: TensorInfo,
    map: Arc<HostMap>,
    range: Range<usize>,
}

impl Weights {
    pub fn from_gguf(file: &GgufFile) -> Weights {
        let mut weights = Weights::empty();
        for (name, tensor) in file.tensors() {
            let map = Arc::clone(file.map());
            let stored = Stored { info: tensor.info.clone(), map, range: tensor.range.clone() };
            weights.tensors.insert(name.to_owned(), stored);
        }
        weights
    }

    /// All tensors that can be read, in order of their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
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
        let buffer = Buffer::mapped(Arc::clone(&stored.map), stored.range.clone());
        Ok(Matrix::new(stored.info.format, rows, columns, Arc::new(buffer)))
    }

    /// A tensor of one dimension (a norm, a bias), widened to f32.
    pub fn vector(&self, name: &str) -> Result<Vec<f32>, Error> {
        let stored = self.stored(name)?;
        if stored.info.shape.len() != 1 {
            return Err(stored.wrong_rank(name, 1));
        }
        let bytes = &stored.map.bytes()[stored.range.clone()];
        widen(stored.info.format, bytes).ok_or_else(|| Error::TensorFormat {
            name: name.into(),
            found: stored.info.format.name().into(),
            wanted: "F32, F16, BF16",
        })
    }

    /// A list of 64-bit integers, if there is one of this name.
    pub fn integers(&self, name: &str) -> Option<Vec<i64>> {
        let (map, range) = self.integers.get(name)?;
        let numbers = map.bytes()[range.clone()].as_chunks().0;
        Some(numbers.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
    }

    /// Bytes of all tensors as they are stored.
    pub fn total_bytes(&self) -> u64 {
        self.tensors.values().map(|stored| stored.range.len() as u64).sum()
    }

    /// The mapped files, each once.
    pub fn files(&self) -> Vec<Arc<HostMap>> {
        let mut files: Vec<Arc<HostMap>> = Vec::new();
        for stored in self.tensors.values() {
            if !files.iter().any(|file| Arc::ptr_eq(file, &stored.map)) {
                files.push(Arc::clone(&stored.map));
            }
        }
        files
    }

    fn empty() -> Weights {
        Weights { tensors: BTreeMap::new(), foreign: BTreeMap::new(), integers: BTreeMap::new() }
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
