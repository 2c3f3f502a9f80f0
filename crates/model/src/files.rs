//! Small files of a model, read whole, and what a model's path says of its name.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::error::Error;

pub fn read_text(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.into(), source })
}

pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::Read { path: path.into(), source })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Error::Malformed { path: path.into(), problem: error.to_string() })
}

/// The folder's name, or the file's without its ending.
pub fn name_of(path: &Path) -> String {
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    name.map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
