//! The files of one golden model, as a parameter server's configuration names them.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::golden_table::GoldenTable;
use crate::ctr::{CtrNetwork, CtrTable, CtrWeights};
use crate::error::Error;
use crate::files::read_json;

pub(super) struct ModelFiles {
    pub name: String,
    folder: PathBuf,
    entry: ModelEntry,
    network: Value,
}

#[derive(Deserialize)]
struct PsConfig {
    models: Vec<ModelEntry>,
}

#[derive(Deserialize)]
struct ModelEntry {
    network_file: PathBuf,
    dense_file: PathBuf,
    sparse_files: Vec<PathBuf>,
    default_value_for_each_table: Vec<f32>,
}

impl ModelFiles {
    pub fn open(folder: &Path, name: &str) -> Result<Self, Error> {
        let path = folder.join("ps.json");
        let config: PsConfig = read_json(&path)?;
        let [entry] = <[ModelEntry; 1]>::try_from(config.models).map_err(|models| {
            let problem = format!("it has {} models, not one", models.len());
            Error::Malformed { path, problem }
        })?;
        let network = read_json(&folder.join(&entry.network_file))?;
        Ok(ModelFiles { name: name.to_owned(), folder: folder.into(), entry, network })
    }

    pub fn network(&self) -> Result<CtrNetwork, Error> {
        CtrNetwork::parse(self.network.to_string().as_bytes())
    }

    /// The network up to its loss, if it has one; it has the same parameters.
    pub fn network_of_logits(&self) -> Result<Option<CtrNetwork>, Error> {
        let mut network = self.network.clone();
        let Some(layers) = network["layers"].as_array_mut() else { return Ok(None) };
        let before = layers.len();
        layers.retain(|layer| layer["type"].as_str().is_some_and(|kind| !kind.ends_with("Loss")));
        let is_one = before == layers.len() + 1;
        let parse = || CtrNetwork::parse(network.to_string().as_bytes());
        is_one.then(parse).transpose()
    }

    /// HugeCTR's file.
    pub fn flat_weights(&self, network: &CtrNetwork) -> Result<CtrWeights, Error> {
        CtrWeights::from_hugectr(network, &read(&self.folder.join(&self.entry.dense_file))?)
    }

    /// The same by name.
    pub fn named_weights(&self, network: &CtrNetwork) -> Result<CtrWeights, Error> {
        CtrWeights::from_safetensors(network, &read(&self.folder.join("weights.safetensors"))?)
    }

    pub fn tables(&self, tables: &[CtrTable]) -> Result<Vec<GoldenTable>, Error> {
        let ModelEntry { sparse_files, default_value_for_each_table: defaults, .. } = &self.entry;
        let files = sparse_files.iter().zip(defaults);
        let opened = files.zip(tables).map(|((folder, default), table)| {
            let folder = self.folder.join(folder);
            let [keys, rows] = [read(&folder.join("key"))?, read(&folder.join("emb_vector"))?];
            Ok(GoldenTable::new(&keys, &rows, table.dim, *default))
        });
        opened.collect()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.into(), source })
}
