//! The newest dense weights of models, as they came over Kafka.
//!
//! A version is here whole or not at all. Whoever runs the model takes the newest between two
//! batches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::feed::DenseWeights;

pub struct DenseVersions {
    /// By topic.
    models: BTreeMap<String, Mutex<Option<Arc<DenseWeights>>>>,
}

/// Of a model's dense weights: far above any click-through model's.
pub const DENSE_BYTES_MOST: usize = 4 << 30;

impl DenseVersions {
    pub fn new<'a>(models: impl Iterator<Item = &'a str>) -> Self {
        let models = models.map(|model| (dense_topic(model), Mutex::default()));
        DenseVersions { models: models.collect() }
    }

    /// The newest version of a model that has come; `None` before the first.
    pub fn newest(&self, model: &str) -> Option<Arc<DenseWeights>> {
        let newest = self.models.get(&dense_topic(model))?;
        newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    pub(super) fn has(&self, topic: &str) -> bool {
        self.models.contains_key(topic)
    }

    pub(super) fn put(&self, topic: &str, weights: &DenseWeights) {
        if let Some(newest) = self.models.get(topic) {
            let mut newest = newest.lock().unwrap_or_else(PoisonError::into_inner);
            *newest = Some(Arc::new(weights.clone()));
        }
    }
}

/// The Kafka topic of a model's dense weights.
pub fn dense_topic(model: &str) -> String {
    format!("hps_dense.{model}")
}
