//! Who runs when, of click-through models: requests wait in a queue, instances on threads of their
//! own take them in batches, look rows up and compute the network.
//!
//! Tables, network, weights and executors are built one by one and put together in
//! [`PredictParts`]; [`PredictSetup`] does it as a configuration says.

mod batch_policy;
mod batch_queue;
mod cpu_predict_executor;
mod cuda;
mod host_pooling;
mod instance;
mod predict_counters;
mod predict_error;
mod predict_executor;
mod predict_model;
mod predict_setup;
mod predict_tables;
mod prediction;
mod request_shape;
mod samples;
mod vcsr_request;
mod weight_source;

pub use batch_policy::{BatchPolicy, Decision, Joining};
pub use cpu_predict_executor::CpuPredictExecutor;
pub use host_pooling::HostPooling;
pub use predict_counters::{BatchStats, PredictStats};
pub use predict_error::PredictError;
pub use predict_executor::{Computed, PredictExecutor};
pub use predict_model::{PredictModel, PredictParts};
pub use predict_setup::{InstancePlace, PredictSetup};
pub use predict_tables::PredictTables;
pub use prediction::{PredictTimes, Prediction};
pub use request_shape::{RequestShape, SlotsOfTable};
pub use samples::{Samples, TableKeys};
pub use vcsr_request::VcsrRequest;
pub use weight_source::{FedWeights, WeightSource};
