//! Writes small GGUF files for tests.
//!
//! It writes what it is given, right or wrong: a test that needs a broken file gets one.

/// Metadata type ids.
pub const U32: u32 = 4;
pub const I32: u32 = 5;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const TEXT: u32 = 8;
pub const ARRAY: u32 = 9;

/// Tensor type ids.
pub const TENSOR_F32: u32 = 0;
pub const TENSOR_Q8_0: u32 = 8;

#[derive(Clone)]
pub struct GgufWriter {
    pub version: u32,
    pub alignment: usize,
    /// Key, type id and the value's bytes.
    metadata: Vec<(String, u32, Vec<u8>)>,
    tensors: Vec<Tensor>,
}

#[derive(Clone)]
struct Tensor {
    name: String,
    type_id: u32,
    /// Innermost first.
    dimensions: Vec<u64>,
    bytes: Vec<u8>,
}

impl GgufWriter {
    pub fn new() -> Self {
        GgufWriter { version: 3, alignment: 32, metadata: Vec::new(), tensors: Vec::new() }
    }

    /// A value whose bytes the test made itself.
    pub fn raw(mut self, key: &str, type_id: u32, bytes: Vec<u8>) -> Self {
        self.metadata.push((key.into(), type_id, bytes));
        self
    }

    pub fn u32(self, key: &str, value: u32) -> Self {
        self.raw(key, U32, value.to_le_bytes().into())
    }

    pub fn f32(self, key: &str, value: f32) -> Self {
        self.raw(key, F32, value.to_le_bytes().into())
    }

    pub fn bool(self, key: &str, value: bool) -> Self {
        self.raw(key, BOOL, vec![value.into()])
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        self.raw(key, TEXT, text(value))
    }

    pub fn texts(self, key: &str, values: &[&str]) -> Self {
        let bytes = array(TEXT, values.len(), values.iter().flat_map(|value| text(value)));
        self.raw(key, ARRAY, bytes)
    }

    pub fn i32s(self, key: &str, values: &[i32]) -> Self {
        let bytes = array(I32, values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
        self.raw(key, ARRAY, bytes)
    }

    pub fn f32s(self, key: &str, values: &[f32]) -> Self {
        let bytes = array(F32, values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
        self.raw(key, ARRAY, bytes)
    }

    /// `shape` is outermost first, as Terrace has it.
    pub fn tensor(mut self, name: &str, type_id: u32, shape: &[u64], bytes: Vec<u8>) -> Self {
        let dimensions = shape.iter().rev().copied().collect();
        self.tensors.push(Tensor { name: name.into(), type_id, dimensions, bytes });
        self
    }

    pub fn f32_tensor(self, name: &str, shape: &[u64], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, TENSOR_F32, shape, bytes)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, type_id, bytes) in &self.metadata {
            out.extend(text(key));
            out.extend(type_id.to_le_bytes());
            out.extend(bytes);
        }
        let mut data = Vec::new();
        for tensor in &self.tensors {
            out.extend(text(&tensor.name));
            out.extend((tensor.dimensions.len() as u32).to_le_bytes());
            out.extend(tensor.dimensions.iter().flat_map(|dimension| dimension.to_le_bytes()));
            out.extend(tensor.type_id.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(&tensor.bytes);
            pad(&mut data, self.alignment);
        }
        pad(&mut out, self.alignment);
        out.extend(data);
        out
    }
}

/// A text as GGUF stores it.
pub fn text(value: &str) -> Vec<u8> {
    let mut bytes = (value.len() as u64).to_le_bytes().to_vec();
    bytes.extend(value.as_bytes());
    bytes
}

/// An array as GGUF stores it.
pub fn array(type_id: u32, count: usize, values: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let mut bytes = type_id.to_le_bytes().to_vec();
    bytes.extend((count as u64).to_le_bytes());
    bytes.extend(values);
    bytes
}

fn pad(bytes: &mut Vec<u8>, alignment: usize) {
    bytes.resize(bytes.len().next_multiple_of(alignment), 0);
}
