//! A folder of golden data: its manifest, and the tensors of its entries.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::GoldenFileError;
use super::golden_tensors::GoldenTensors;

pub struct GoldenFolder {
    path: PathBuf,
    manifest: Map<String, Value>,
}

/// An entry of the manifest, with its tensors.
pub struct GoldenCase<T> {
    pub name: String,
    pub about: T,
    pub tensors: GoldenTensors,
}

impl GoldenFolder {
    pub fn open(path: &Path) -> Result<Self, GoldenFileError> {
        let file = path.join("manifest.json");
        let read = |source| GoldenFileError::Read { path: file.clone(), source };
        let text = std::fs::read_to_string(&file).map_err(read)?;
        let malformed = |problem| GoldenFileError::Malformed { path: file.clone(), problem };
        let manifest = serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        Ok(GoldenFolder { path: path.into(), manifest })
    }

    /// All entries by name, whatever their kind.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.manifest.iter().map(|(name, about)| (name.as_str(), about))
    }

    /// All cases of a kind, by name.
    pub fn cases<T: DeserializeOwned>(
        &self,
        kind: &str,
    ) -> Result<Vec<GoldenCase<T>>, GoldenFileError> {
        let entries = self.entries().filter(|(_, about)| about["kind"] == kind);
        entries.map(|(name, about)| self.case(name, about)).collect()
    }

    /// The tensors of one file.
    pub fn tensors(&self, file: &str) -> Result<GoldenTensors, GoldenFileError> {
        GoldenTensors::read(&self.path.join(file))
    }

    fn case<T: DeserializeOwned>(
        &self,
        name: &str,
        about: &Value,
    ) -> Result<GoldenCase<T>, GoldenFileError> {
        let malformed = |problem: String| GoldenFileError::Malformed {
            path: self.path.join("manifest.json"),
            problem: format!("{name}: {problem}"),
        };
        let file = about["file"].as_str().ok_or_else(|| malformed("it names no file".into()))?;
        let tensors = self.tensors(file)?;
        let about = T::deserialize(about).map_err(|error| malformed(error.to_string()))?;
        Ok(GoldenCase { name: name.to_owned(), about, tensors })
    }
}
