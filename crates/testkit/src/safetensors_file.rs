//! Writes safetensors files.

use serde_json::{Map, json};

use crate::rng::Rng;

/// A safetensors file in the making.
#[derive(Default)]
pub struct SafetensorsFile {
    header: Map<String, serde_json::Value>,
    data: Vec<u8>,
}

impl SafetensorsFile {
    /// Numbers from `-scale` to `scale`.
    pub fn random(&mut self, rng: &mut Rng, name: &str, shape: &[usize], scale: f32) {
        let count: usize = shape.iter().product();
        let number = |rng: &mut Rng| (rng.below(2001) as f32 / 1000.0 - 1.0) * scale;
        let numbers: Vec<f32> = (0..count).map(|_| number(rng)).collect();
        self.numbers(name, shape, &numbers);
    }

    pub fn numbers(&mut self, name: &str, shape: &[usize], numbers: &[f32]) {
        assert_eq!(numbers.len(), shape.iter().product::<usize>(), "numbers of {name}");
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.add(name, "F32", shape, &bytes);
    }

    pub fn integers(&mut self, name: &str, values: &[i64]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.add(name, "I64", &[values.len()], &bytes);
    }

    fn add(&mut self, name: &str, dtype: &str, shape: &[usize], bytes: &[u8]) {
        let start = self.data.len();
        self.data.extend(bytes);
        let offsets = [start, self.data.len()];
        let about = json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets });
        self.header.insert(name.to_owned(), about);
    }

    pub fn bytes(self) -> Vec<u8> {
        let mut header = serde_json::Value::Object(self.header).to_string();
        while !header.len().is_multiple_of(8) {
            header.push(' ');
        }
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header.as_bytes(), &self.data].concat()
    }
}
