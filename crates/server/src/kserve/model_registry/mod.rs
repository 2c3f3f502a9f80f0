//! The models that answer inference requests, by name and version.
//!
//! Versions of a model come and go together: a load replaces all of them at once, when all are
//! ready, and requests under way end with what they began with. A load that fails changes nothing.
//! Loads and unloads of one model wait for each other; those of others do not.

mod load_thread;
mod model_entry;
mod model_source;
mod regular_threads;
mod request_statistics;
mod served_version;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::Mutex as AsyncMutex;

use super::infer_error::InferError;
use super::inference_model::InferenceModel;
use crate::bounded_work::WorkMemory;
use load_thread::at_low_priority;
pub use model_entry::{IndexedModel, ModelState};
use model_entry::{ModelEntry, Versions};
pub use model_source::{LoadParameters, LoadRequest, ModelSource};
pub use regular_threads::RegularThreads;
pub use request_statistics::{CountedTime, StatisticsReading, nanoseconds};
pub use served_version::ServedVersion;

#[derive(Default)]
pub struct ModelRegistry {
    repository: Option<Repository>,
    models: RwLock<BTreeMap<String, ModelEntry>>,
    /// Held by who loads or unloads a model.
    turns: Mutex<BTreeMap<String, Arc<AsyncMutex<()>>>>,
    memory: Arc<WorkMemory>,
}

struct Repository {
    source: Arc<dyn ModelSource>,
    threads: RegularThreads,
}

/// Names that an error lists.
const NAMES_MOST: usize = 20;

impl ModelRegistry {
    /// Models are loaded from here while the server runs.
    pub fn with_source(source: Arc<dyn ModelSource>) -> std::io::Result<Self> {
        let repository = Repository { source, threads: RegularThreads::start()? };
        let mut registry = Self::default();
        registry.repository = Some(repository);
        Ok(registry)
    }

    /// What answers to requests may take.
    pub fn memory(&self) -> &Arc<WorkMemory> {
        &self.memory
    }

    /// Whether there is, or may be, something to serve.
    pub fn is_empty(&self) -> bool {
        self.repository.is_none() && self.models().is_empty()
    }

    /// Serves a model from now on, until one of its name is loaded; gives its name where that is
    /// taken.
    pub fn add_fixed(&self, model: Arc<dyn InferenceModel>) -> Result<(), String> {
        let name = model.metadata().name.clone();
        let mut models = self.models_mut();
        if models.contains_key(&name) {
            return Err(name);
        }
        models.insert(name, ModelEntry::fixed(model));
        Ok(())
    }

    /// The version of a model that is to answer; an empty `version` is the latest.
    pub fn find(&self, name: &str, version: &str) -> Result<Arc<ServedVersion>, InferError> {
        let models = self.models();
        let Some(entry) = models.get(name) else {
            let known = listed(models.keys().map(String::as_str));
            return Err(InferError::not_found(format!(
                "there is no model {name:?} here; known: {known}"
            )));
        };
        let Some(latest) = entry.latest() else {
            return Err(InferError::unavailable(format!(
                "model {name:?} has no version that is ready"
            )));
        };
        if version.is_empty() {
            return Ok(Arc::clone(latest));
        }
        let number: u64 = version.parse().map_err(|_| {
            InferError::invalid(format!("the version {version:?} of {name:?} is no whole number"))
        })?;
        entry.ready().get(&number).cloned().ok_or_else(|| {
            let numbers: Vec<_> = entry.ready().keys().map(u64::to_string).collect();
            let known = listed(numbers.iter().map(String::as_str));
            InferError::not_found(format!(
                "model {name:?} has no version {number}; ready are {known}"
            ))
        })
    }

    /// All versions of a model that answer, or of all models; an empty `version` is all.
    pub fn served(&self, name: &str, version: &str) -> Result<Vec<Arc<ServedVersion>>, InferError> {
        match (name.is_empty(), version.is_empty()) {
            (true, true) => Ok(self.all_served()),
            (true, false) => Err(InferError::invalid(format!(
                "the version {version:?} is given without a model"
            ))),
            (false, false) => self.find(name, version).map(|served| vec![served]),
            (false, true) => {
                self.find(name, "")?;
                let all = self.all_served().into_iter();
                Ok(all.filter(|served| served.metadata().name == name).collect())
            }
        }
    }

    fn all_served(&self) -> Vec<Arc<ServedVersion>> {
        self.models().values().flat_map(|entry| entry.ready().values().cloned()).collect()
    }

    /// Whether all models answer.
    pub fn is_ready(&self) -> bool {
        self.all_served().iter().all(|served| served.is_ready())
    }

    /// All models: those that are known here, and those that can be loaded.
    pub async fn index(&self, ready_only: bool) -> Result<Vec<IndexedModel>, InferError> {
        let mut rows: Vec<_> =
            self.models().iter().flat_map(|(name, entry)| entry.index(name)).collect();
        if ready_only {
            rows.retain(|row| row.state == Some(ModelState::Ready));
            return Ok(rows);
        }
        if let Some(Repository { source, .. }) = &self.repository {
            let source = Arc::clone(source);
            let names = at_low_priority(move || source.names()).await.and_then(|names| names);
            let names = names.map_err(|why| {
                InferError::internal(format!("the model repository cannot be read: {why}"))
            })?;
            let unknown: Vec<_> =
                names.into_iter().filter(|name| rows.iter().all(|row| row.name != *name)).collect();
            rows.extend(unknown.into_iter().map(|name| IndexedModel {
                name,
                version: None,
                state: None,
                reason: String::new(),
            }));
            rows.sort_by(|a, b| (&a.name, a.version).cmp(&(&b.name, b.version)));
        }
        Ok(rows)
    }

    /// Loads a model, or loads it again. It goes on when nobody waits for it any more.
    pub async fn load(
        self: &Arc<Self>,
        name: &str,
        given: LoadParameters,
    ) -> Result<(), InferError> {
        given.check()?;
        let (registry, name) = (Arc::clone(self), name.to_owned());
        let loading = tokio::spawn(async move { registry.load_in_turn(name, given).await });
        loading.await.unwrap_or_else(|error| Err(InferError::internal(error.to_string())))
    }

    async fn load_in_turn(&self, name: String, given: LoadParameters) -> Result<(), InferError> {
        let Some(Repository { source, threads }) = &self.repository else {
            return Err(no_repository());
        };
        let turn = self.turn(&name);
        let held = turn.lock().await;
        self.models_mut().entry(name.clone()).or_default().begin_loading();
        let memory = Arc::clone(&self.memory);
        let request = LoadRequest { given, threads: threads.clone(), memory };
        let (source, wanted) = (Arc::clone(source), name.clone());
        let loaded = at_low_priority(move || source.load(&wanted, request)).await;
        let loaded = loaded.and_then(|loaded| loaded).and_then(|loaded| checked(&name, loaded));
        let result = match loaded {
            Ok(versions) => {
                let numbers: Vec<_> = versions.keys().copied().collect();
                let retired = self.models_mut().entry(name.clone()).or_default().replace(versions);
                drop(retired);
                tracing::info!(model = name, versions = ?numbers, "a model was loaded");
                Ok(())
            }
            Err(why) => {
                tracing::warn!(model = name, "a model was not loaded: {why}");
                self.fail_loading(&name, &why);
                Err(InferError::invalid(format!("model {name:?} was not loaded: {why}")))
            }
        };
        drop(held);
        self.end_turn(&name, turn);
        result
    }

    /// Notes why, where not too many have failed already.
    fn fail_loading(&self, name: &str, why: &str) {
        let mut models = self.models_mut();
        if let Some(entry) = models.get_mut(name) {
            entry.fail_loading(why.to_owned());
        }
        let failures = models.values().filter(|entry| entry.latest().is_none()).count();
        // Whoever asks for names at random shall not fill the memory.
        if failures > FAILURES_MOST {
            models.remove(name);
        }
    }

    /// No further request is answered; those under way are, and then all of the model goes.
    pub async fn unload(&self, name: &str) -> Result<(), InferError> {
        if self.models().get(name).is_some_and(ModelEntry::is_fixed) {
            return Err(InferError::invalid(format!(
                "model {name:?} is served from the start of this server to its end; it cannot be \
                 unloaded"
            )));
        }
        if self.repository.is_none() {
            return Err(no_repository());
        }
        let turn = self.turn(name);
        let held = turn.lock().await;
        let retired = self.models_mut().get_mut(name).map(ModelEntry::unload);
        drop(held);
        self.end_turn(name, turn);
        match retired {
            Some(_) => {
                tracing::info!(model = name, "a model was unloaded");
                Ok(())
            }
            None => Err(InferError::not_found(format!("there is no model {name:?} to unload"))),
        }
    }

    fn turn(&self, name: &str) -> Arc<AsyncMutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(name.to_owned()).or_default())
    }

    /// Forgets the turns of a model that nobody waits for.
    fn end_turn(&self, name: &str, turn: Arc<AsyncMutex<()>>) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        // This one, and that of the map.
        if Arc::strong_count(&turn) == 2 {
            turns.remove(name);
        }
    }

    fn models(&self) -> RwLockReadGuard<'_, BTreeMap<String, ModelEntry>> {
        self.models.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn models_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, ModelEntry>> {
        self.models.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ModelRegistry {
    fn drop(&mut self) {
        self.all_served().iter().for_each(|served| served.end());
    }
}

/// Models that answer nothing and are remembered all the same.
const FAILURES_MOST: usize = 1024;

/// What a source gave, by the numbers of its versions.
fn checked(name: &str, loaded: Vec<Arc<dyn InferenceModel>>) -> Result<Versions, String> {
    let mut versions = Versions::new();
    for model in loaded {
        let metadata = model.metadata();
        if metadata.name != name {
            return Err(format!("its repository gave a model {:?}", metadata.name));
        }
        let version = metadata.version;
        if versions.insert(version, model).is_some() {
            return Err(format!("its repository gave version {version} twice"));
        }
    }
    match versions.is_empty() {
        true => Err("it has no version to serve".to_owned()),
        false => Ok(versions),
    }
}

fn no_repository() -> InferError {
    InferError::unsupported(
        "this server was started without a model repository; its models are neither loaded nor \
         unloaded while it runs",
    )
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.collect();
    let more = names.len().saturating_sub(NAMES_MOST);
    names.truncate(NAMES_MOST);
    match (names.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests;
