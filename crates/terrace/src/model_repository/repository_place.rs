//! Where a model repository is: in a folder, or in an object store.

use anyhow::Result;
use terrace_embedding::ModelPath;

use super::object_repository::ObjectRepository;
use super::repository_folder::{ModelFolder, RepositoryFolder};
use crate::open_folder::model_path;

pub enum RepositoryPlace {
    Folder(RepositoryFolder),
    Objects(ObjectRepository),
}

impl RepositoryPlace {
    /// A path, or an `s3://` URL.
    pub fn open(text: &str) -> Result<Self> {
        match model_path(text) {
            ModelPath::Local(path) => Ok(Self::Folder(RepositoryFolder::open(&path)?)),
            ModelPath::ObjectStore(url) => Ok(Self::Objects(ObjectRepository::new(&url))),
        }
    }

    pub fn names(&self) -> Result<Vec<String>> {
        match self {
            Self::Folder(folder) => folder.names(),
            Self::Objects(objects) => objects.names(),
        }
    }

    /// A model as it is now.
    pub fn model(&self, name: &str) -> Result<ModelFolder> {
        match self {
            Self::Folder(folder) => folder.model(name),
            Self::Objects(objects) => objects.model(name),
        }
    }
}
