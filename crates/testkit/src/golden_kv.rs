//! Golden data of key/value caches: a manifest of runs, and a file of tensors for each.
//!
//! What the kinds of entries hold is described in `testdata/kv/README.md`. Tests read sizes from
//! here, never from their own text, so that data of other shapes can be put in.

use serde_json::Value;
use terrace_golden::{GoldenFileError, GoldenFolder, GoldenTensors};

use crate::golden_set;

/// One entry of the manifest. What is missing in it fails the test that asks for it.
pub struct GoldenKv {
    pub name: String,
    pub about: Value,
    tensors: Option<GoldenTensors>,
}

impl GoldenKv {
    /// All entries of a kind, by name, with their tensors.
    pub fn of_kind(kind: &str) -> Vec<GoldenKv> {
        let entries = Self::entries(|about| about["kind"] == kind);
        assert!(!entries.is_empty(), "no golden kv entry of kind {kind}");
        entries
    }

    /// The entry whose tensors are in this file.
    pub fn of_file(file: &str) -> GoldenKv {
        let found = Self::entries(|about| about["file"] == file).pop();
        found.unwrap_or_else(|| panic!("no golden kv entry has {file}"))
    }

    fn entries(is_wanted: impl Fn(&Value) -> bool) -> Vec<GoldenKv> {
        let folder = there(GoldenFolder::open(&golden_set("kv")));
        let wanted = folder.entries().filter(|(_, about)| is_wanted(about));
        let open = |(name, about): (&str, &Value)| GoldenKv {
            name: name.to_owned(),
            about: about.clone(),
            tensors: about["file"].as_str().map(|file| there(folder.tensors(file))),
        };
        wanted.map(open).collect()
    }

    pub fn has(&self, tensor: &str) -> bool {
        self.tensors.as_ref().is_some_and(|tensors| tensors.has(tensor))
    }

    pub fn shape(&self, tensor: &str) -> &[usize] {
        there(self.tensors().shape(tensor))
    }

    pub fn f32(&self, tensor: &str) -> &[f32] {
        there(self.tensors().f32s(tensor))
    }

    pub fn i32(&self, tensor: &str) -> &[i32] {
        there(self.tensors().i32s(tensor))
    }

    pub fn u8(&self, tensor: &str) -> &[u8] {
        there(self.tensors().u8s(tensor))
    }

    fn tensors(&self) -> &GoldenTensors {
        self.tensors.as_ref().unwrap_or_else(|| panic!("{} has no tensors", self.name))
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

fn there<T>(read: Result<T, GoldenFileError>) -> T {
    read.unwrap_or_else(|error| panic!("{error}"))
}
