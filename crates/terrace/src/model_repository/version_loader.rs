//! Puts one version of a model together: its tables, its network, its weights and its instances.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use terrace_embedding::{
    ModelPath, ModelTables, ParameterServer, PsConfig, RequestTable, SetOptions,
};
use terrace_engine::predict::{PredictModel, PredictSetup, PredictTables};
use terrace_server::kserve::{ModelConfig, RegularThreads};

use super::dense_part::DensePart;
use super::deployment::{Backend, Deployment};
use super::instance_places::instance_places;
use super::model_tables::TablesOfVersion;
use super::repository_folder::ModelFolder;
use super::version_files::{NamedFiles, VersionFolder};
use crate::open_folder::open_folder;
use crate::table_databases::TableDatabases;

/// Of all models.
pub struct VersionLoader {
    pub databases: TableDatabases,
    pub cores: usize,
    /// Folders to look for cuBLASLt in.
    pub cuda_libs: Vec<PathBuf>,
}

pub struct WantedVersion<'a> {
    pub folder: &'a ModelFolder,
    pub config: &'a ModelConfig,
    pub version: u64,
    /// All of ps.json, if there is one.
    pub ps: Option<&'a PsConfig>,
    /// Tables to go on with, where they are frozen.
    pub frozen: Option<&'a [ModelPath]>,
}

/// A version that answers, with what it holds.
pub struct LoadedVersion {
    pub set: Arc<ParameterServer>,
    /// `None`: tables alone.
    pub model: Option<PredictModel>,
    /// The tables' folders.
    pub sparse: Vec<ModelPath>,
    pub is_frozen: bool,
}

impl VersionLoader {
    /// Threads that answer are started by `threads`. Calls `say` with what the user should know.
    pub fn load(
        &self,
        wanted: &WantedVersion<'_>,
        threads: &RegularThreads,
        say: &mut dyn FnMut(String),
    ) -> Result<LoadedVersion> {
        let name = &wanted.folder.name;
        let entry = wanted.ps.and_then(|ps| ps.models.iter().find(|it| it.name == *name));
        let deployment = Deployment::of(wanted.config, entry)?;
        for unknown in &deployment.parameters.unknown {
            say(format!("parameter {unknown:?} of config.pbtxt has no effect"));
        }
        let is_frozen = deployment.parameters.freeze_sparse == Some(true);
        match deployment.backend {
            Backend::Hps => self.load_tables(wanted, &deployment, threads, say),
            Backend::Hugectr => {
                let folder = VersionFolder { folder: wanted.folder, version: wanted.version };
                let mut files = folder.find(&named_files(&deployment, entry))?;
                if let Some(frozen) = wanted.frozen.filter(|_| is_frozen) {
                    files.sparse = frozen.to_vec();
                }
                let dense = DensePart::read(&files, &deployment.parameters)?;
                let tables = TablesOfVersion {
                    model: name,
                    ps: wanted.ps,
                    deployment: &deployment,
                    inputs: Some(dense.inputs()),
                    sparse: &files.sparse,
                    cores: self.cores,
                };
                let config = tables.config()?;
                let set = self.start_tables(&config, threads, say)?;
                let start = self.set_up(&deployment, &config, dense, &set, say)?;
                let model = threads.run(start).map_err(anyhow::Error::msg)??;
                Ok(LoadedVersion { set, model: Some(model), sparse: files.sparse, is_frozen })
            }
        }
    }

    fn load_tables(
        &self,
        wanted: &WantedVersion<'_>,
        deployment: &Deployment,
        threads: &RegularThreads,
        say: &mut dyn FnMut(String),
    ) -> Result<LoadedVersion> {
        let name = &wanted.folder.name;
        let entry = wanted.ps.and_then(|ps| ps.models.iter().find(|it| it.name == *name));
        let sparse = entry.map_or_else(Vec::new, sparse_folders);
        let tables = TablesOfVersion {
            model: name,
            ps: wanted.ps,
            deployment,
            inputs: None,
            sparse: &sparse,
            cores: self.cores,
        };
        let set = self.start_tables(&tables.config()?, threads, say)?;
        Ok(LoadedVersion { set, model: None, sparse, is_frozen: false })
    }

    fn start_tables(
        &self,
        config: &PsConfig,
        threads: &RegularThreads,
        say: &mut dyn FnMut(String),
    ) -> Result<Arc<ParameterServer>> {
        let options = SetOptions { open: &open_folder, progress: &mut |_, _| (), say };
        let databases = self.databases.of(config)?;
        let wrong = "its tables cannot be served";
        let prepared = ParameterServer::prepare_beside(&databases, config, options);
        let prepared = prepared.context(wrong)?;
        // What keeps them fresh runs at the server's own priority.
        let set = threads.run(move || prepared.serve()).map_err(anyhow::Error::msg)?;
        Ok(Arc::new(set.context(wrong)?))
    }

    fn set_up(
        &self,
        deployment: &Deployment,
        config: &PsConfig,
        dense: DensePart,
        set: &Arc<ParameterServer>,
        say: &mut dyn FnMut(String),
    ) -> Result<StartModel> {
        let model = &config.models[0];
        let (places, note) =
            instance_places(&deployment.instances, model, self.databases.devices())?;
        note.into_iter().for_each(&mut *say);
        let keys_most = model.request_tables().into_iter().map(|table| {
            let table = &model.tables[table.table];
            table.max_keys_per_sample.filter(|_| table.fused.is_empty())
        });
        let keys_most = keys_most.collect();
        let (name, key_kind) = (model.name.clone(), config.key_kind);
        let tables = PredictTables::find(set, model, dense.inputs())?;
        let batching = deployment.batching.clone();
        Ok(match dense {
            DensePart::Network { network, weights } => {
                let setup = PredictSetup {
                    name,
                    keys_most,
                    key_kind,
                    tables,
                    network: Arc::new(network),
                    weights,
                    batching,
                    // Instances share the cores.
                    threads: (self.cores / places.len().max(1)).max(1),
                    places,
                    mixed_precision: deployment.mixed_precision,
                    cuda_libs: self.cuda_libs.clone(),
                };
                Box::new(move || setup.start())
            }
            #[cfg(feature = "onnx")]
            DensePart::Onnx(network) => {
                if places.iter().any(|place| place.gpu.is_some()) {
                    anyhow::bail!(
                        "the dense part is an ONNX file, which is computed on the CPU: give it \
                         instance_group [ {{ kind: KIND_CPU }} ]"
                    );
                }
                let caches = places.iter().map(|place| place.cache).collect();
                let setup = terrace_onnx::OnnxSetup {
                    name,
                    network,
                    tables,
                    keys_most,
                    key_kind,
                    batching,
                    caches,
                };
                Box::new(move || setup.start())
            }
        })
    }
}

/// Starts a model's instances, on threads of the thread that calls it.
type StartModel = Box<dyn FnOnce() -> Result<PredictModel, terrace_engine::Error> + Send>;

/// What `config.pbtxt` names, or else ps.json.
fn named_files(deployment: &Deployment, entry: Option<&ModelTables>) -> NamedFiles {
    let mut named = deployment.named_files();
    let Some(entry) = entry else { return named };
    let local = |path: &Option<ModelPath>| match path {
        Some(ModelPath::Local(path)) => Some(path.clone()),
        _ => None,
    };
    named.network = named.network.or_else(|| local(&entry.network_file));
    named.dense = named.dense.or_else(|| local(&entry.dense_file));
    if named.sparse.is_empty() {
        named.sparse = sparse_folders(entry);
    }
    named
}

/// In the order in which requests have the tables.
fn sparse_folders(entry: &ModelTables) -> Vec<ModelPath> {
    let folder =
        |table: RequestTable<'_>| entry.tables[table.table].sparse_folders[table.folder].clone();
    entry.request_tables().into_iter().map(folder).collect()
}
