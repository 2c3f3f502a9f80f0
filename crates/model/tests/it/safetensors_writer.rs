//! Writes small safetensors files for tests.

use serde_json::{Map, Value, json};

#[derive(Clone, Default)]
pub struct SafetensorsWriter {
    header: Map<String, Value>,
    data: Vec<u8>,
}

impl SafetensorsWriter {
    pub fn tensor(mut self, name: &str, dtype: &str, shape: &[usize], bytes: &[u8]) -> Self {
        let start = self.data.len();
        self.data.extend(bytes);
        let offsets = [start, self.data.len()];
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets });
        self.header.insert(name.into(), entry);
        self
    }

    pub fn f32(self, name: &str, shape: &[usize], values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, "F32", shape, &bytes)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let header = serde_json::to_vec(&self.header).expect("a map of plain values");
        let mut out = (header.len() as u64).to_le_bytes().to_vec();
        out.extend(header);
        out.extend(&self.data);
        out
    }
}
