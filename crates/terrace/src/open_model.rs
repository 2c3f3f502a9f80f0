//! From the model that was asked for to one that is ready to talk.

use std::path::PathBuf;

use anyhow::{Result, bail};
use terrace_engine::text::LanguageModel;
use terrace_model::{Families, LoadedModel};

use crate::options::EngineOptions;
use crate::progress;
use crate::store::{Check, KnownModel, ModelStore};

/// Finds the model, pulls it if it has a name and is not there, and starts its engine.
pub fn open(options: &EngineOptions) -> Result<LanguageModel> {
    open_as(options, None)
}

/// As `open`, under a name of the caller's choice.
pub fn open_as(options: &EngineOptions, name: Option<&str>) -> Result<LanguageModel> {
    let config = options.inference_config()?;
    let found = find(&options.model)?;
    let mut model = LoadedModel::open(&found.path, &Families::known())?;
    if let Some(name) = name.or(found.name) {
        name.clone_into(&mut model.name);
    }
    let bar = progress::bytes("loading", model.file_bytes());
    model.read_ahead(|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    Ok(LanguageModel::start(model, &config)?)
}

struct Found {
    path: PathBuf,
    /// Of a known model; others are named by their file or folder.
    name: Option<&'static str>,
}

/// A path wins over a name, so that a local file can stand in for a known model.
fn find(model: &str) -> Result<Found> {
    let path = PathBuf::from(model);
    if path.exists() {
        return Ok(Found { path, name: None });
    }
    let Some(known) = KnownModel::find(model) else {
        let names = KnownModel::names();
        bail!("model {model}: there is no such file or folder, and no such name (known: {names})");
    };
    let path = ModelStore::of_user()?.ensure(known, Check::Size)?.path;
    Ok(Found { path, name: Some(known.name) })
}
