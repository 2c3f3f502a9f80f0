//! What the registry knows of one model: the versions that answer, and why others do not.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::served_version::ServedVersion;
use crate::kserve::inference_model::InferenceModel;

#[derive(Default)]
pub struct ModelEntry {
    /// Those that answer, by their numbers.
    ready: BTreeMap<u64, Arc<ServedVersion>>,
    /// Those that were unloaded last, by their numbers; requests under way may hold them.
    unloaded: BTreeMap<u64, Weak<ServedVersion>>,
    is_loading: bool,
    /// Why the last load has failed; empty where it has not.
    failure: String,
    /// Served since the start: it came from no repository, and does not go.
    is_fixed: bool,
}

/// By their numbers.
pub type Versions = BTreeMap<u64, Arc<dyn InferenceModel>>;

/// Versions that answer no further request. Those under way hold what they began with.
#[must_use]
pub struct Retired(
    #[expect(dead_code, reason = "it is only dropped")] BTreeMap<u64, Arc<ServedVersion>>,
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelState {
    Loading,
    Ready,
    Unloading,
    Unavailable,
}

impl ModelState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Loading => "LOADING",
            Self::Ready => "READY",
            Self::Unloading => "UNLOADING",
            Self::Unavailable => "UNAVAILABLE",
        }
    }
}

/// A row of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedModel {
    pub name: String,
    /// `None` where it is not known.
    pub version: Option<u64>,
    /// `None` where it was never asked for.
    pub state: Option<ModelState>,
    pub reason: String,
}

impl ModelEntry {
    /// One that is there until another is loaded under its name.
    pub fn fixed(model: Arc<dyn InferenceModel>) -> Self {
        let number = model.metadata().version;
        let ready = BTreeMap::from([(number, Arc::new(ServedVersion::new(model)))]);
        Self { ready, is_fixed: true, ..Self::default() }
    }

    pub fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    pub fn ready(&self) -> &BTreeMap<u64, Arc<ServedVersion>> {
        &self.ready
    }

    /// The latest that answers.
    pub fn latest(&self) -> Option<&Arc<ServedVersion>> {
        self.ready.last_key_value().map(|(_, served)| served)
    }

    pub fn begin_loading(&mut self) {
        self.is_loading = true;
    }

    /// These answer from now on, and no others; gives those before them, to be let go without a
    /// lock.
    pub fn replace(&mut self, versions: Versions) -> Retired {
        let served = versions.into_iter().map(|(number, model)| {
            let served = Arc::new(ServedVersion::new(model));
            (number, served)
        });
        self.unloaded.clear();
        self.is_loading = false;
        self.failure.clear();
        self.is_fixed = false;
        Retired(std::mem::replace(&mut self.ready, served.collect()))
    }

    /// Those before it go on answering.
    pub fn fail_loading(&mut self, why: String) {
        self.is_loading = false;
        self.failure = why;
    }

    /// None answers from now on; gives those that did.
    pub fn unload(&mut self) -> Retired {
        let ready = std::mem::take(&mut self.ready);
        self.unloaded = ready.iter().map(|(number, it)| (*number, Arc::downgrade(it))).collect();
        self.failure.clear();
        Retired(ready)
    }

    /// Its rows of the index.
    pub fn index(&self, name: &str) -> Vec<IndexedModel> {
        let row = |version, state, reason: &str| IndexedModel {
            name: name.to_owned(),
            version,
            state: Some(state),
            reason: reason.to_owned(),
        };
        let ready = self.ready.iter().map(|(number, served)| match served.is_ready() {
            true => row(Some(*number), ModelState::Ready, &self.failed_reload()),
            false => row(Some(*number), ModelState::Unavailable, "the model has stopped"),
        });
        let mut rows: Vec<_> = ready.collect();
        if self.is_loading {
            rows.push(row(None, ModelState::Loading, ""));
        } else if rows.is_empty() && !self.failure.is_empty() {
            rows.push(row(None, ModelState::Unavailable, &self.failure));
        } else if rows.is_empty() {
            let unloaded =
                self.unloaded.iter().map(|(number, served)| match served.strong_count() {
                    0 => row(Some(*number), ModelState::Unavailable, "unloaded"),
                    _ => row(Some(*number), ModelState::Unloading, "requests are under way"),
                });
            rows.extend(unloaded);
        }
        rows
    }

    fn failed_reload(&self) -> String {
        match self.failure.is_empty() {
            true => String::new(),
            false => format!(
                "the last load has failed, and this is what was there before: {}",
                self.failure
            ),
        }
    }
}
