//! The types of layers that a network may have, by the names that its JSON uses.

use std::collections::BTreeMap;

use super::ctr_layer::CtrLayer;
use super::layer_fields::LayerFields;
use super::layers;

/// Reads the options of a layer; what is wrong with them, otherwise.
pub type ReadCtrLayer = fn(&LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String>;

#[derive(Clone)]
pub struct CtrLayerKinds {
    kinds: BTreeMap<String, ReadCtrLayer>,
}

impl CtrLayerKinds {
    /// Those of HugeCTR.
    pub fn hugectr() -> Self {
        let kinds = layers::KINDS.iter().map(|(name, read)| ((*name).to_owned(), *read));
        CtrLayerKinds { kinds: kinds.collect() }
    }

    /// Another one, or another meaning of a name.
    #[must_use]
    pub fn with(mut self, name: &str, read: ReadCtrLayer) -> Self {
        self.kinds.insert(name.to_owned(), read);
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<ReadCtrLayer> {
        self.kinds.get(name).copied()
    }

    /// All names, in the order of the alphabet.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }
}
