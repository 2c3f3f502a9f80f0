//! Where newer dense weights of a model come from while it serves.

use std::sync::Arc;

use terrace_embedding::{DenseWeights, ParameterServer};

/// Asked before each batch.
pub trait WeightSource: Send + Sync {
    /// The newest that came; `None` before the first.
    fn newest(&self) -> Option<Arc<DenseWeights>>;
}

/// Those that a parameter server gets over Kafka.
pub struct FedWeights {
    pub server: Arc<ParameterServer>,
    pub model: String,
}

impl WeightSource for FedWeights {
    fn newest(&self) -> Option<Arc<DenseWeights>> {
        self.server.dense_weights(&self.model)
    }
}
