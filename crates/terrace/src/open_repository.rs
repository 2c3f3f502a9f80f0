//! Opens a model repository as the options say, and loads all its models.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::{Result, bail};
use terrace_embedding::ParameterServer;
use terrace_engine::DeviceChoice;
use terrace_engine::predict::{PredictModel, RequestShape};
use terrace_server::TableService;
use terrace_server::kserve::{LoadParameters, ModelRegistry, ModelSource, RegularThreads};

use crate::model_repository::{RepositoryModels, RepositoryPlace, VersionLoader, WantedVersion};
use crate::open_tables::{self, OpenedTables};
use crate::options::{EngineOptions, PsOptions};
use crate::progress;
use crate::ps_source::PsSource;
use crate::table_databases::TableDatabases;

pub struct OpenedRepository {
    place: RepositoryPlace,
    names: Vec<String>,
    ps: Option<PsSource>,
    databases: TableDatabases,
    cuda_libs: Vec<PathBuf>,
}

/// A repository whose models can be loaded.
pub struct StartedRepository {
    pub registry: Arc<ModelRegistry>,
    models: Arc<RepositoryModels>,
    names: Vec<String>,
}

impl StartedRepository {
    /// Loads all models; one that cannot be loaded is an error. Gives what requests to the first
    /// look like.
    pub async fn load_all(&self) -> Result<Option<(String, RequestShape)>> {
        let bar = progress::models(self.names.len());
        for name in &self.names {
            bar.set_message(name.clone());
            if let Err(error) = self.registry.load(name, LoadParameters::default()).await {
                bar.finish_and_clear();
                bail!("{error}");
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        for served in self.registry.served("", "").map_err(|error| anyhow::anyhow!("{error}"))? {
            let metadata = served.metadata();
            if self.names.contains(&metadata.name) {
                println!("model    {}: version {}", metadata.name, metadata.version);
            }
        }
        Ok(self.models.first.get().cloned())
    }
}

impl OpenedRepository {
    /// And the tables of models that are not in it.
    pub fn open(
        place: &str,
        tables: &PsOptions,
        engine: &EngineOptions,
    ) -> Result<(Option<Arc<ParameterServer>>, Self)> {
        let place = RepositoryPlace::open(place)?;
        let names = place.names()?;
        let opened = open_tables::open_for_repository(tables, engine.device(), &names)?;
        let OpenedTables { databases, set } = opened;
        let cuda_libs = engine.cuda_libs().to_vec();
        let ps = tables.source()?;
        Ok((set, OpenedRepository { place, names, ps, databases, cuda_libs }))
    }

    /// One model of a repository, by its folder.
    pub fn open_model(
        folder: &str,
        tables: &PsOptions,
        device: DeviceChoice,
        cuda_libs: &[PathBuf],
    ) -> Result<Self> {
        let (place, name) = match folder.trim_end_matches('/').rsplit_once('/') {
            Some((place, name)) => (place, name),
            None => (".", folder.trim_end_matches('/')),
        };
        let names = vec![name.to_owned()];
        let place = RepositoryPlace::open(place)?;
        let databases = open_tables::open_databases(tables, device)?;
        let ps = tables.source()?;
        Ok(OpenedRepository { place, names, ps, databases, cuda_libs: cuda_libs.to_vec() })
    }

    /// A version of its one model, without a server; the latest where none is named.
    pub fn load_version(
        self,
        version: Option<u64>,
    ) -> Result<(PredictModel, Arc<ParameterServer>)> {
        let OpenedRepository { place, names, ps, databases, cuda_libs } = self;
        let cores = open_tables::cores();
        let loader = VersionLoader { databases, cores, cuda_libs };
        let folder = place.model(&names[0])?;
        let config = folder.config()?;
        let found = folder.versions()?;
        let version = match version {
            None => found[found.len() - 1],
            Some(version) if found.contains(&version) => version,
            Some(version) => bail!("{:?} has no version {version}; it has {found:?}", names[0]),
        };
        let ps = ps.map(|source| source.read(cores)).transpose()?.map(|(config, _)| config);
        let wanted = WantedVersion {
            folder: &folder,
            config: &config,
            version,
            ps: ps.as_ref(),
            frozen: None,
        };
        let mut say = |text: String| eprintln!("note: {text}");
        let loaded = loader.load(&wanted, &RegularThreads::start()?, &mut say)?;
        match loaded.model {
            Some(model) => Ok((model, loaded.set)),
            None => bail!("{:?} has tables alone, and predicts nothing", names[0]),
        }
    }

    /// A registry that loads its models.
    pub fn start(self, tables: &TableService) -> Result<StartedRepository> {
        let OpenedRepository { place, names, ps, databases, cuda_libs } = self;
        let loader = VersionLoader { databases, cores: open_tables::cores(), cuda_libs };
        let models = RepositoryModels {
            place,
            ps,
            loader,
            tables: tables.clone(),
            frozen: Mutex::default(),
            first: OnceLock::new(),
        };
        let models = Arc::new(models);
        let source: Arc<dyn ModelSource> = Arc::<RepositoryModels>::clone(&models);
        let registry = Arc::new(ModelRegistry::with_source(source)?);
        Ok(StartedRepository { registry, models, names })
    }
}
