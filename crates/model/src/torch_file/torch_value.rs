//! What a file of `torch.save` holds, as a tree.

use std::sync::Arc;

use super::torch_tensor::TorchTensor;

#[derive(Clone, Debug, PartialEq)]
pub enum TorchValue {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// Texts, and the names of types and devices.
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Sets are lists too.
    List(Vec<TorchValue>),
    Tuple(Vec<TorchValue>),
    /// In the file's order; of two entries with one key the later counts.
    Dict(Vec<(TorchValue, TorchValue)>),
    Tensor(TorchTensor),
    /// Book-keeping of distributed training, which is known by its class alone.
    Opaque(&'static str),
}

impl TorchValue {
    /// The value of a text key of a dict.
    pub fn get(&self, key: &str) -> Option<&TorchValue> {
        let TorchValue::Dict(entries) = self else { return None };
        let found = entries.iter().rev().find(|(name, _)| name.as_text() == Some(key));
        found.map(|(_, value)| value)
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            TorchValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// All tensors below this value, with the keys and places that lead to them, joined by dots.
    pub fn tensors(&self) -> Vec<(String, &TorchTensor)> {
        let mut found = Vec::new();
        self.collect_tensors("", &mut found);
        found
    }

    fn collect_tensors<'a>(&'a self, name: &str, found: &mut Vec<(String, &'a TorchTensor)>) {
        let below = |part: &dyn std::fmt::Display| match name {
            "" => part.to_string(),
            _ => format!("{name}.{part}"),
        };
        match self {
            TorchValue::Tensor(tensor) => found.push((name.to_owned(), tensor)),
            TorchValue::List(values) | TorchValue::Tuple(values) => {
                for (place, value) in values.iter().enumerate() {
                    value.collect_tensors(&below(&place), found);
                }
            }
            TorchValue::Dict(entries) => {
                for (key, value) in entries {
                    match key {
                        TorchValue::Text(key) => value.collect_tensors(&below(key), found),
                        TorchValue::Int(key) => value.collect_tensors(&below(key), found),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}
