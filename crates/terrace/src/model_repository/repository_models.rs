//! The models of a repository as a server loads them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result};
use terrace_embedding::{ModelPath, PsConfig};
use terrace_engine::predict::RequestShape;
use terrace_server::kserve::{
    CtrInference, InferenceModel, LoadRequest, ModelConfig, ModelSource, TableModel,
};
use terrace_server::{ServedSet, TableService};

use super::deployment::wanted_versions;
use super::repository_folder::ModelFolder;
use super::repository_place::RepositoryPlace;
use super::version_loader::{LoadedVersion, VersionLoader, WantedVersion};
use crate::ps_source::PsSource;

pub struct RepositoryModels {
    pub place: RepositoryPlace,
    /// Read again at each load.
    pub ps: Option<PsSource>,
    pub loader: VersionLoader,
    pub tables: TableService,
    /// Tables of models that keep them from version to version.
    pub frozen: Mutex<BTreeMap<String, Vec<ModelPath>>>,
    /// What requests to the model that was loaded first look like.
    pub first: OnceLock<(String, RequestShape)>,
}

impl ModelSource for RepositoryModels {
    fn names(&self) -> Result<Vec<String>, String> {
        self.place.names().map_err(|error| format!("{error:#}"))
    }

    fn load(
        &self,
        name: &str,
        request: LoadRequest,
    ) -> Result<Vec<Arc<dyn InferenceModel>>, String> {
        self.load_versions(name, &request).map_err(|error| format!("{error:#}"))
    }
}

impl RepositoryModels {
    fn load_versions(
        &self,
        name: &str,
        request: &LoadRequest,
    ) -> Result<Vec<Arc<dyn InferenceModel>>> {
        let folder = match request.given.files.is_empty() {
            true => self.place.model(name)?,
            false => ModelFolder::of_files(name, &request.given.files)?,
        };
        let config = match &request.given.config {
            Some(config) => ModelConfig { name: name.to_owned(), ..config.clone() },
            None => folder.config()?,
        };
        let ps = self.ps.as_ref().map(|source| source.read(self.loader.cores)).transpose()?;
        let ps = ps.map(|(config, _)| config);
        let versions = wanted_versions(&config, &folder.versions()?)?;
        let load = |version| self.load_version(&folder, &config, version, ps.as_ref(), request);
        versions.into_iter().map(load).collect()
    }

    fn load_version(
        &self,
        folder: &ModelFolder,
        config: &ModelConfig,
        version: u64,
        ps: Option<&PsConfig>,
        request: &LoadRequest,
    ) -> Result<Arc<dyn InferenceModel>> {
        let name = &folder.name;
        let frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let wanted = WantedVersion { folder, config, version, ps, frozen: frozen.as_deref() };
        let mut say = |text: String| tracing::warn!(model = name, version, "{text}");
        let loaded = self.loader.load(&wanted, &request.threads, &mut say);
        let loaded = loaded.with_context(|| format!("version {version}"))?;
        let LoadedVersion { set, model, sparse, is_frozen } = loaded;
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        match is_frozen {
            true => frozen.insert(name.clone(), sparse),
            false => frozen.remove(name),
        };
        drop(frozen);
        let served: ServedSet = self.tables.serve(set);
        Ok(match model {
            Some(model) => {
                self.first.get_or_init(|| (name.clone(), model.shape().clone()));
                Arc::new(CtrInference::new(version, config.clone(), model, Some(served)))
            }
            None => Arc::new(
                TableModel::of_version(version, config.clone(), served, &request.memory)
                    .context("the model has no table")?,
            ),
        })
    }
}
