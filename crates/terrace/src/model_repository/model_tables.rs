//! The tables of one version of a model: what ps.json says of them, and what `config.pbtxt`, the
//! network and the version's files add.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use terrace_embedding::{GpuCacheConfig, KeyKind, ModelPath, ModelTables, PsConfig, Surroundings};
use terrace_model::ctr::{CtrInputs, CtrTable};

use super::deployment::Deployment;
use super::model_parameters::ModelParameters;

pub struct TablesOfVersion<'a> {
    pub model: &'a str,
    /// All of ps.json, if there is one.
    pub ps: Option<&'a PsConfig>,
    pub deployment: &'a Deployment,
    /// The network's, where there is a network.
    pub inputs: Option<&'a CtrInputs>,
    /// A folder for each table.
    pub sparse: &'a [ModelPath],
    pub cores: usize,
}

impl TablesOfVersion<'_> {
    /// A configuration that has this model alone.
    pub fn config(&self) -> Result<PsConfig> {
        let own = self.ps.and_then(|ps| ps.models.iter().find(|it| it.name == self.model));
        let mut config = match (self.ps, own) {
            (Some(ps), Some(own)) => PsConfig { models: vec![own.clone()], ..ps.clone() },
            (ps, _) => {
                let derived = self.derived()?;
                let base = ps.cloned().unwrap_or_else(|| derived.clone());
                PsConfig { models: derived.models, ..base }
            }
        };
        let parameters = &self.deployment.parameters;
        if let Some(is_long) = parameters.has_long_keys
            && is_long != (config.key_kind == KeyKind::I64)
        {
            bail!(
                "embeddingkey_long_type is {is_long}, and supportlonglong of ps.json is {}",
                !is_long
            );
        }
        let model = &mut config.models[0];
        self.use_folders(model)?;
        model.max_batch_size = self.deployment.batching.max_samples;
        model.gpu_cache = self.gpu_cache(parameters, model.gpu_cache.take())?;
        Ok(config)
    }

    fn use_folders(&self, model: &mut ModelTables) -> Result<()> {
        let places: Vec<_> =
            model.request_tables().iter().map(|table| (table.table, table.folder)).collect();
        if places.len() != self.sparse.len() {
            bail!(
                "ps.json has {} tables of the model, and its version {}",
                places.len(),
                self.sparse.len()
            );
        }
        for ((table, folder), path) in places.into_iter().zip(self.sparse) {
            model.tables[table].sparse_folders[folder] = path.clone();
        }
        Ok(())
    }

    /// What `config.pbtxt` says of it wins.
    fn gpu_cache(
        &self,
        parameters: &ModelParameters,
        cache: Option<GpuCacheConfig>,
    ) -> Result<Option<GpuCacheConfig>> {
        let cache = match (parameters.gpu_cache, cache) {
            (Some(false), _) => return Ok(None),
            (Some(true), None) => self.derived()?.models.remove(0).gpu_cache,
            (_, cache) => cache,
        };
        let seconds = |time: f64| {
            Some(std::time::Duration::from_secs_f64(time)).filter(|time| !time.is_zero())
        };
        Ok(cache.map(|mut cache| {
            cache.share = parameters.gpu_cache_share.unwrap_or(cache.share);
            cache.hit_rate_threshold =
                parameters.hit_rate_threshold.unwrap_or(cache.hit_rate_threshold);
            if let Some(time) = parameters.refresh_interval {
                cache.refresh_interval = seconds(time);
            }
            if let Some(time) = parameters.refresh_delay {
                cache.refresh_delay = seconds(time);
            }
            cache
        }))
    }

    /// A ps.json for a model that none has an entry for.
    fn derived(&self) -> Result<PsConfig> {
        let Some(inputs) = self.inputs else {
            bail!("ps.json has no entry for {:?}; what its tables are stands there", self.model);
        };
        let path = |path: &ModelPath| match path {
            ModelPath::Local(path) => match path.to_str() {
                Some(text) => Ok(json!(text)),
                None => bail!("the path {} is not UTF-8", path.display()),
            },
            ModelPath::ObjectStore(url) => Ok(json!(url)),
        };
        let paths = self.sparse.iter().map(path).collect::<Result<Vec<Value>>>()?;
        if paths.len() != inputs.tables.len() {
            bail!(
                "the network has {} embedding layers, and the version {} tables \
                 (*_sparse_*.model)",
                inputs.tables.len(),
                paths.len()
            );
        }
        let of_tables =
            |of: &dyn Fn(&CtrTable) -> Value| -> Value { inputs.tables.iter().map(of).collect() };
        let keys = |table: &CtrTable| table.keys_per_sample_most.max(table.slots);
        let devices = match self.deployment.gpus() {
            gpus if gpus.is_empty() => vec![0],
            gpus => gpus,
        };
        let mut entry = Map::new();
        for (key, value) in [
            ("model", json!(self.model)),
            ("sparse_files", Value::Array(paths)),
            ("embedding_table_names", of_tables(&|table| json!(table.name))),
            ("embedding_vecsize_per_table", of_tables(&|table| json!(table.dim))),
            ("default_value_for_each_table", of_tables(&|_| json!(0.0))),
            (
                "maxnum_catfeature_query_per_table_per_sample",
                of_tables(&|table| json!(keys(table))),
            ),
            ("deployed_device_list", json!(devices)),
            ("max_batch_size", json!(self.deployment.batching.max_samples)),
        ] {
            entry.insert(key.to_owned(), value);
        }
        let is_long = self.deployment.parameters.has_long_keys.unwrap_or(true);
        let config = json!({"supportlonglong": is_long, "models": [entry]});
        let around =
            Surroundings { folder: Some(Path::new("/")), model_name: None, cores: self.cores };
        let (config, _) = PsConfig::from_value(&config, &around)
            .with_context(|| format!("no tables can be made for {:?}", self.model))?;
        Ok(config)
    }
}
