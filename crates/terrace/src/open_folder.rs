//! The files of a table, wherever a path says that they are.

use std::sync::LazyLock;

use terrace_embedding::{LoadError, ModelPath, ObjectSource, ObjectSourceConfig, SparseFolder};

/// With the logins that the environment has, as other programs for object stores find them.
pub static OBJECTS: LazyLock<ObjectSource> =
    LazyLock::new(|| ObjectSource::new(ObjectSourceConfig::from_env()));

/// A path as it is typed.
pub fn model_path(text: &str) -> ModelPath {
    match text.starts_with("s3://") {
        true => ModelPath::ObjectStore(text.to_owned()),
        false => ModelPath::Local(text.into()),
    }
}

pub fn open_folder(path: &ModelPath, dim: Option<usize>) -> Result<SparseFolder, LoadError> {
    SparseFolder::open_path(path, dim, &OBJECTS)
}
