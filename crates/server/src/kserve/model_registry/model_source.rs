//! Where models come from while the server runs.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;

use bytes::Bytes;

use super::regular_threads::RegularThreads;
use crate::bounded_work::WorkMemory;
use crate::kserve::infer_error::InferError;
use crate::kserve::inference_model::InferenceModel;
use crate::kserve::messages::ModelConfig;

/// Both block. They are called on a thread of low priority, so that loading does not slow down
/// what is served.
pub trait ModelSource: Send + Sync {
    /// All models that can be loaded.
    fn names(&self) -> Result<Vec<String>, String>;

    /// All versions of a model that are to be served, ready to answer. Threads that are started
    /// here have this thread's low priority, and keep it: those that will answer requests are
    /// started by [`LoadRequest::threads`].
    fn load(
        &self,
        name: &str,
        request: LoadRequest,
    ) -> Result<Vec<Arc<dyn InferenceModel>>, String>;
}

#[derive(Clone)]
pub struct LoadRequest {
    pub given: LoadParameters,
    /// Runs work at the server's own priority.
    pub threads: RegularThreads,
    /// What answers may take.
    pub memory: Arc<WorkMemory>,
}

/// What a client gives beside the model's name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadParameters {
    /// Takes the place of the configuration that the source has.
    pub config: Option<ModelConfig>,
    /// Contents by their paths below the model's folder; they take the place of that folder.
    pub files: BTreeMap<String, Bytes>,
}

impl LoadParameters {
    /// Adds a file; its path must stay in the model's folder.
    pub fn add_file(&mut self, path: &str, content: Bytes) -> Result<(), InferError> {
        let mut parts = Path::new(path).components();
        let is_below = !path.is_empty() && parts.all(|it| matches!(it, Component::Normal(_)));
        if !is_below || path.contains('\0') {
            return Err(InferError::invalid(format!(
                "file:{path} is no path below the model's folder, such as file:1/model.json"
            )));
        }
        self.files.insert(path.to_owned(), content);
        Ok(())
    }

    /// Files alone are not enough.
    pub fn check(&self) -> Result<(), InferError> {
        match self.config.is_none() && !self.files.is_empty() {
            true => Err(InferError::invalid(
                "files are given without a config; they take the place of the model's folder, so \
                 give config too",
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_in_their_folder() {
        let mut given = LoadParameters::default();
        for path in ["1/model.json", "a", "a/./b"] {
            given.add_file(path, Bytes::new()).expect(path);
        }
        for path in ["", "/etc/passwd", "../a", "1/../../a", "a\0b", ".."] {
            let error = given.add_file(path, Bytes::new()).expect_err("it leaves the folder");
            assert!(error.message.contains("no path below the model's folder"), "{error}");
        }
        assert_eq!(given.files.len(), 3);
        assert!(given.check().is_err());
        given.config = Some(ModelConfig::default());
        assert_eq!(given.check(), Ok(()));
    }
}
