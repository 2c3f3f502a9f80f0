//! Golden data of key/value caches: a manifest of runs, and a file of tensors for each.
//!
//! What the kinds of entries hold is described in `testdata/kv/README.md`. Tests read sizes from
//! here, never from their own text, so that data of other shapes can be put in.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::golden_set;

/// One entry of the manifest.
pub struct GoldenKv {
    pub name: String,
    pub about: Value,
    tensors: BTreeMap<String, Tensor>,
}

/// Numbers of one type, row-major.
pub struct Tensor {
    pub shape: Vec<usize>,
    data: Data,
}

enum Data {
    F32(Vec<f32>),
    I32(Vec<i32>),
    U8(Vec<u8>),
}

impl GoldenKv {
    /// All entries of a kind, by name, with their tensors.
    pub fn of_kind(kind: &str) -> Vec<GoldenKv> {
        let wanted = manifest().into_iter().filter(|(_, about)| about["kind"] == kind);
        let entries: Vec<GoldenKv> = wanted.map(|(name, about)| Self::open(name, about)).collect();
        assert!(!entries.is_empty(), "no golden kv entry of kind {kind}");
        entries
    }

    /// The entry whose tensors are in this file.
    pub fn of_file(file: &str) -> GoldenKv {
        let found = manifest().into_iter().find(|(_, about)| about["file"] == file);
        let (name, about) = found.unwrap_or_else(|| panic!("no golden kv entry has {file}"));
        Self::open(name, about)
    }

    fn open(name: String, about: Value) -> GoldenKv {
        let tensors = match about["file"].as_str() {
            Some(file) => read_tensors(file),
            None => BTreeMap::new(),
        };
        GoldenKv { name, about, tensors }
    }

    pub fn has(&self, tensor: &str) -> bool {
        self.tensors.contains_key(tensor)
    }

    pub fn tensor(&self, tensor: &str) -> &Tensor {
        self.tensors.get(tensor).unwrap_or_else(|| panic!("{} has no tensor {tensor}", self.name))
    }

    pub fn f32(&self, tensor: &str) -> &[f32] {
        match &self.tensor(tensor).data {
            Data::F32(numbers) => numbers,
            _ => panic!("{}: {tensor} is not f32", self.name),
        }
    }

    pub fn i32(&self, tensor: &str) -> &[i32] {
        match &self.tensor(tensor).data {
            Data::I32(numbers) => numbers,
            _ => panic!("{}: {tensor} is not i32", self.name),
        }
    }

    pub fn u8(&self, tensor: &str) -> &[u8] {
        match &self.tensor(tensor).data {
            Data::U8(numbers) => numbers,
            _ => panic!("{}: {tensor} is not u8", self.name),
        }
    }

    pub fn count(&self, key: &str) -> usize {
        let number = self.about[key].as_u64();
        number.unwrap_or_else(|| panic!("{}: no count {key}", self.name)) as usize
    }

    pub fn number(&self, key: &str) -> f64 {
        self.about[key].as_f64().unwrap_or_else(|| panic!("{}: no number {key}", self.name))
    }

    pub fn text(&self, key: &str) -> &str {
        self.about[key].as_str().unwrap_or_else(|| panic!("{}: no text {key}", self.name))
    }

    pub fn flag(&self, key: &str) -> bool {
        self.about[key].as_bool().unwrap_or_else(|| panic!("{}: no flag {key}", self.name))
    }

    pub fn counts(&self, key: &str) -> Vec<usize> {
        counts(&self.about[key]).unwrap_or_else(|| panic!("{}: no counts {key}", self.name))
    }
}

/// A list of counts.
pub fn counts(list: &Value) -> Option<Vec<usize>> {
    list.as_array()?.iter().map(|number| number.as_u64().map(|number| number as usize)).collect()
}

fn manifest() -> BTreeMap<String, Value> {
    let path = golden_set("kv").join("manifest.json");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("golden data {}: {error}", path.display()));
    serde_json::from_str(&text).expect("a manifest is a JSON object")
}

fn read_tensors(file: &str) -> BTreeMap<String, Tensor> {
    let path = golden_set("kv").join(file);
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("golden data {}: {error}", path.display()));
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("a file of tensors");
    let named = file.tensors().into_iter().map(|(name, view)| (name, tensor(&view)));
    named.collect()
}

fn tensor(view: &safetensors::tensor::TensorView<'_>) -> Tensor {
    let words = || view.data().chunks_exact(4).map(|word| word.try_into().expect("four bytes"));
    let data = match view.dtype() {
        safetensors::Dtype::F32 => Data::F32(words().map(f32::from_le_bytes).collect()),
        safetensors::Dtype::I32 => Data::I32(words().map(i32::from_le_bytes).collect()),
        safetensors::Dtype::U8 => Data::U8(view.data().to_vec()),
        other => panic!("tensors of {other:?} are not expected"),
    };
    Tensor { shape: view.shape().to_vec(), data }
}
