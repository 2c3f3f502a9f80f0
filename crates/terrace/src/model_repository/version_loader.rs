//! Puts one version of a model together: its tables, its network, its weights and its instances.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use terrace_embedding::{
    ModelPath, ModelTables, ParameterServer, PsConfig, RequestTable, SetOptions,
};
use terrace_engine::predict::{PredictModel, PredictSetup, PredictTables};
use terrace_model::ctr::{CtrNetwork, CtrWeights};
use terrace_server::kserve::{ModelConfig, RegularThreads};

use super::deployment::{Backend, Deployment};
use super::instance_places::instance_places;
use super::model_tables::TablesOfVersion;
use super::repository_folder::ModelFolder;
use super::version_files::{NamedFiles, VersionFiles, VersionFolder};
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
                let network = read_network(&files)?;
                check_parameters(&deployment, &network)?;
                let weights = read_weights(&files, &network)?;
                let tables = TablesOfVersion {
                    model: name,
                    ps: wanted.ps,
                    deployment: &deployment,
                    inputs: Some(network.inputs()),
                    sparse: &files.sparse,
                    cores: self.cores,
                };
                let config = tables.config()?;
                let set = self.start_tables(&config, threads, say)?;
                let setup = self.setup(&deployment, &config, network, weights, &set, say)?;
                let model = threads.run(move || setup.start()).map_err(anyhow::Error::msg)??;
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

    fn setup(
        &self,
        deployment: &Deployment,
        config: &PsConfig,
        network: CtrNetwork,
        weights: CtrWeights,
        set: &Arc<ParameterServer>,
        say: &mut dyn FnMut(String),
    ) -> Result<PredictSetup> {
        let model = &config.models[0];
        let (places, note) =
            instance_places(&deployment.instances, model, self.databases.devices())?;
        note.into_iter().for_each(say);
        let keys_most = model.request_tables().into_iter().map(|table| {
            let table = &model.tables[table.table];
            table.max_keys_per_sample.filter(|_| table.fused.is_empty())
        });
        Ok(PredictSetup {
            name: model.name.clone(),
            keys_most: keys_most.collect(),
            key_kind: config.key_kind,
            tables: PredictTables::find(set, model, &network)?,
            network: Arc::new(network),
            weights,
            batching: deployment.batching.clone(),
            // Instances share the cores.
            threads: (self.cores / places.len().max(1)).max(1),
            places,
            mixed_precision: deployment.mixed_precision,
            cuda_libs: self.cuda_libs.clone(),
        })
    }
}

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

fn read_network(files: &VersionFiles) -> Result<CtrNetwork> {
    let path = &files.network;
    let json = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    CtrNetwork::parse(&json).with_context(|| format!("cannot use the network {}", path.display()))
}

/// HugeCTR's flat file, or safetensors; statistics of BatchNorm lie beside it.
fn read_weights(files: &VersionFiles, network: &CtrNetwork) -> Result<CtrWeights> {
    let path = &files.dense;
    let read = |path: &Path| {
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let bytes = read(path)?;
    let is_safetensors = path.extension().is_some_and(|it| it == "safetensors");
    let weights = match is_safetensors {
        true => CtrWeights::from_safetensors(network, &bytes),
        false => CtrWeights::from_hugectr(network, &bytes),
    };
    let wrong = || format!("cannot use the dense weights {}", path.display());
    let weights = weights.with_context(wrong)?;
    match &files.statistics {
        Some(path) => {
            let json = read(path)?;
            let wrong = || format!("cannot use the statistics {}", path.display());
            weights.with_statistics(network, &json).with_context(wrong)
        }
        None => Ok(weights),
    }
}

/// What `config.pbtxt` says of the network must be so.
fn check_parameters(deployment: &Deployment, network: &CtrNetwork) -> Result<()> {
    let (parameters, inputs) = (&deployment.parameters, network.inputs());
    let slots: usize = inputs.tables.iter().map(|table| table.slots).sum();
    let size = inputs.tables.first().map_or(0, |table| table.dim);
    let has_one_size = inputs.tables.iter().all(|table| table.dim == size);
    let vector_size = parameters.vector_size.filter(|_| has_one_size);
    for (name, given, is) in [
        ("slots", parameters.slots, slots),
        ("des_feature_num", parameters.dense_features, inputs.dense_dim),
        ("label_dim", parameters.label_dim, network.output_width()),
        ("embedding_vector_size", vector_size, size),
    ] {
        if let Some(given) = given.filter(|given| *given != is) {
            bail!("parameter {name:?} of config.pbtxt is {given}, and the network has {is}");
        }
    }
    Ok(())
}
