//! A folder of golden data: its manifest, read into the kinds of cases that ops can be held to.
//!
//! What the kinds hold is told in `testdata/kv/README.md`. Sizes are read from here, so that data
//! of other shapes can be put in.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::GoldenError;
use super::golden_tensors::GoldenTensors;

pub struct GoldenFolder {
    path: PathBuf,
    manifest: Map<String, Value>,
}

/// One cache over a batch of rows, call by call.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PolicyRun {
    pub inputs: String,
    pub batch_size: usize,
    pub n_head: usize,
    pub n_query_groups: usize,
    pub head_size: usize,
    pub cache_name: String,
    pub cache_length: usize,
    pub chunk_sizes: Vec<usize>,
    pub sdpa_scale: f32,
    #[serde(default)]
    pub requantize_after_every_step: bool,
    #[serde(default)]
    pub cache_kwargs: Map<String, Value>,
    /// Of `smart-lastrec`: slots of each row that stay, after each call.
    #[serde(default)]
    pub protected_after_each_step: Vec<ProtectedSlots>,
    /// Among others, the arguments of `smart-lastrec`.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ProtectedSlots {
    pub start: Vec<Option<usize>>,
}

/// Attention over slots in any order.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct AttentionCase {
    pub batch_size: usize,
    pub n_head: usize,
    pub n_query_groups: usize,
    pub head_size: usize,
    pub q_len: usize,
    pub kv_len: usize,
    pub input_pos: usize,
    pub scale: f32,
    pub sliding_window_size: usize,
}

/// Rows and what they read as once they are stored.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct QuantiserCase {
    pub name: String,
    pub blocks_over_heads: bool,
}

/// An entry of the manifest, with its tensors.
pub struct GoldenCase<T> {
    pub name: String,
    pub about: T,
    pub tensors: GoldenTensors,
}

impl GoldenFolder {
    pub fn open(path: &Path) -> Result<Self, GoldenError> {
        let file = path.join("manifest.json");
        let read = |source| GoldenError::Read { path: file.clone(), source };
        let text = std::fs::read_to_string(&file).map_err(read)?;
        let malformed = |problem: String| GoldenError::Malformed { path: file.clone(), problem };
        let manifest = serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        Ok(GoldenFolder { path: path.into(), manifest })
    }

    /// All cases of a kind, by name.
    pub fn cases<T: DeserializeOwned>(
        &self,
        kind: &str,
    ) -> Result<Vec<GoldenCase<T>>, GoldenError> {
        let entries = self.manifest.iter().filter(|(_, about)| about["kind"] == kind);
        entries.map(|(name, about)| self.case(name, about)).collect()
    }

    /// The tensors of one file.
    pub fn tensors(&self, file: &str) -> Result<GoldenTensors, GoldenError> {
        GoldenTensors::read(&self.path.join(file))
    }

    fn case<T: DeserializeOwned>(
        &self,
        name: &str,
        about: &Value,
    ) -> Result<GoldenCase<T>, GoldenError> {
        let malformed = |problem: String| GoldenError::Malformed {
            path: self.path.join("manifest.json"),
            problem: format!("{name}: {problem}"),
        };
        let file = about["file"].as_str().ok_or_else(|| malformed("it names no file".into()))?;
        let tensors = self.tensors(file)?;
        let about = T::deserialize(about).map_err(|error| malformed(error.to_string()))?;
        Ok(GoldenCase { name: name.to_owned(), about, tensors })
    }
}
