//! Tensors written by an original implementation.

use std::path::Path;

use safetensors::{Dtype, SafeTensors};

/// A safetensors file of expected inputs and outputs, read whole.
pub struct GoldenFile {
    bytes: Vec<u8>,
}

impl GoldenFile {
    pub fn open(path: &Path) -> Self {
        let bytes = std::fs::read(path)
            .unwrap_or_else(|error| panic!("golden data {}: {error}", path.display()));
        GoldenFile { bytes }
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors().tensor(name).is_ok()
    }

    /// The rows of an f32 matrix.
    pub fn rows(&self, name: &str) -> Vec<Vec<f32>> {
        let tensors = self.tensors();
        let tensor = tensors.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(tensor.dtype(), Dtype::F32, "{name}");
        let &[_, columns] = tensor.shape() else { panic!("{name} is no matrix") };
        let values: Vec<f32> =
            tensor.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        values.chunks(columns).map(<[f32]>::to_vec).collect()
    }

    /// A vector of i64 as token ids.
    pub fn ids(&self, name: &str) -> Vec<u32> {
        let tensors = self.tensors();
        let tensor = tensors.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(tensor.dtype(), Dtype::I64, "{name}");
        let numbers = tensor.data().as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
        numbers.map(|id| u32::try_from(id).expect("a token id")).collect()
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).expect("golden data is safetensors")
    }
}
