//! From the requested model to one that is ready to serve.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use terrace_engine::guidance::GrammarCheck;
use terrace_engine::text::LanguageModel;
use terrace_model::hstu::HstuFiles;
use terrace_model::{Adapter, Families, HashStore, LoadedModel};

use crate::byte_size::ByteSize;
use crate::commands::compile_grammar;
use crate::model_files::{Check, Hub, HubId, KnownModel, ModelFolder, cache_folder};
use crate::options::{EngineDefaults, EngineOptions, ModelChoice};
use crate::progress;

/// Finds the one model that the options name, pulls it if it has a name and is not there, and
/// starts its engine.
pub fn open(options: &EngineOptions) -> Result<LanguageModel> {
    open_beside(options, 1)
}

/// As `open`, for one of several models that share the machine.
pub fn open_beside(options: &EngineOptions, models: usize) -> Result<LanguageModel> {
    open_with(options, |context_tokens| EngineDefaults {
        models,
        ..EngineDefaults::serving(context_tokens)
    })
}

/// As `open`; `defaults` are those for a model whose context holds so many tokens.
pub fn open_with(
    options: &EngineOptions,
    defaults: impl Fn(usize) -> EngineDefaults,
) -> Result<LanguageModel> {
    let ModelChoice { name, source } = options.only_model()?;
    // Wrong options are reported before a model is fetched; which context they are for is no
    // matter.
    options.inference_config(defaults(1))?;
    let model = load(source, name.as_deref(), options.adapter.as_deref())?;
    let mut config = options.inference_config(defaults(model.spec.context_tokens))?;
    config.grammar_check = Some(GrammarCheck::new(compile_grammar::command()?));
    let bar = progress::layers("placing", model.spec.layers.len());
    let started = LanguageModel::start(model, &config, || bar.inc(1));
    bar.finish_and_clear();
    Ok(started?)
}

/// Finds the model, pulls it if need be, and reads its files and its adapter's; no engine yet.
pub fn load(model: &str, name: Option<&str>, adapter: Option<&Path>) -> Result<LoadedModel> {
    let found = find(model)?;
    if HstuFiles::is_in(&found.path) {
        bail!(
            "{} is a recommender: `terrace serve` ranks with it, and `terrace rank score` scores \
             files of requests",
            found.path.display()
        );
    }
    let mut model = LoadedModel::open(&found.path, &Families::known())?;
    if let Some(name) = name.or(found.name.as_deref()) {
        name.clone_into(&mut model.name);
    }
    if let Some(folder) = adapter {
        let adapter = Adapter::open(folder, &model.spec)?;
        model = model.with_adapter(adapter)?;
    }
    model.hash_store = hash_store();
    read_ahead(&model);
    Ok(model)
}

/// Where hashes of weights are kept.
pub fn hash_store() -> Option<HashStore> {
    cache_folder().map(|folder| HashStore::at(folder.join("fingerprints")))
}

/// Brings the weights into memory, so that the first output need not wait for the disk. A model
/// larger than free memory is read as it is used.
fn read_ahead(model: &LoadedModel) {
    let bytes = model.file_bytes();
    if free_memory_bytes().is_some_and(|free| free < bytes) {
        let size = ByteSize(bytes as usize);
        eprintln!("the model's {size} do not fit into free memory; they are read as they are used");
        return;
    }
    let bar = progress::bytes("loading", bytes);
    model.read_ahead(|bytes| bar.inc(bytes));
    bar.finish_and_clear();
}

/// What the system could give without swapping; `None` where it does not say.
pub fn free_memory_bytes() -> Option<u64> {
    let report = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = report.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

struct Found {
    path: PathBuf,
    /// Of a known model or one of the hub; others are named by their file or folder.
    name: Option<String>,
}

/// A path wins over a name, so that a local file can stand in for any model.
fn find(model: &str) -> Result<Found> {
    let path = PathBuf::from(model);
    if path.exists() {
        return Ok(Found { path, name: None });
    }
    if let Some(known) = KnownModel::find(model) {
        let path = ModelFolder::of_user()?.ensure(known, Check::Size)?.path;
        return Ok(Found { path, name: Some(known.name.to_owned()) });
    }
    let nowhere = format!("model {model}: there is no such file or folder");
    let Some(id) = HubId::parse(model) else {
        let names = KnownModel::names();
        bail!("{nowhere}, no such name (known: {names}), and it is no id of the hub (ORG/NAME)");
    };
    let path = Hub::from_env().and_then(|hub| hub.ensure(&id)).context(nowhere)?;
    Ok(Found { path, name: Some(id.repo) })
}
