//! What a gin file of recsys-examples says of a model, key by key.
//!
//! Every key of the original is known, with its default. Those that act in training alone are read
//! and have no effect here; those that would have one, and cannot, are refused when a model is made
//! of them (`inference.rs`).

mod classes;
mod dataset_args;
mod embedding_args;
mod inference;
mod known_datasets;
mod network_args;
mod optimizer_args;
mod sequential_args;
mod task_args;
mod trainer_args;

use std::path::Path;

use crate::error::Error;
use crate::gin::{GinConfig, GinError, UnknownKey};

pub use self::dataset_args::{BenchmarkDatasetArgs, DatasetArgs, FeatureArgs};
pub use self::embedding_args::{
    DistType, DynamicEmbeddingArgs, EmbeddingArgs, EvictStrategy, TableKind,
};
pub use self::known_datasets::DatasetFeatures;
pub use self::network_args::{Backbone, NetworkArgs, NetworkDtype};
pub use self::optimizer_args::{OptimizerArgs, TensorModelParallelArgs};
pub use self::sequential_args::{EvalSampling, SequentialArgs};
pub use self::task_args::{RankingArgs, RetrievalArgs};
pub use self::trainer_args::{PipelineType, TrainerArgs};

#[derive(Clone, Debug, PartialEq)]
pub struct RecsysArgs {
    pub trainer: Option<TrainerArgs>,
    pub dataset: DatasetChoice,
    pub network: NetworkArgs,
    pub task: TaskArgs,
    pub optimizer: Option<OptimizerArgs>,
    pub parallel: TensorModelParallelArgs,
    /// Of our own trainer's sequential models.
    pub sequential: Option<SequentialArgs>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DatasetChoice {
    Named(DatasetArgs),
    Benchmark(BenchmarkDatasetArgs),
}

#[derive(Clone, Debug, PartialEq)]
pub enum TaskArgs {
    Ranking(RankingArgs),
    Retrieval(RetrievalArgs),
}

/// What becomes of keys that the original does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownKeys {
    Refuse,
    /// They are returned, so that they can be reported (gin's `skip_unknown`).
    Skip,
}

impl RecsysArgs {
    /// Reads a file. What is returned beside are keys that were skipped.
    pub fn open(path: &Path, unknown: UnknownKeys) -> Result<(Self, Vec<UnknownKey>), Error> {
        Ok(Self::read(&GinConfig::open(path)?, unknown)?)
    }

    pub fn read(
        config: &GinConfig,
        unknown: UnknownKeys,
    ) -> Result<(Self, Vec<UnknownKey>), GinError> {
        let skipped = config.unknown_keys(&classes::ALL);
        if unknown == UnknownKeys::Refuse && !skipped.is_empty() {
            return Err(GinError::Unknown(skipped.iter().map(ToString::to_string).collect()));
        }
        let dataset = match DatasetArgs::read(config)? {
            Some(args) => DatasetChoice::Named(args),
            None => DatasetChoice::Benchmark(BenchmarkDatasetArgs::read(config)?),
        };
        let task = match RankingArgs::read(config)? {
            Some(args) => TaskArgs::Ranking(args),
            None => TaskArgs::Retrieval(RetrievalArgs::read(config)?),
        };
        let args = RecsysArgs {
            trainer: TrainerArgs::read(config)?,
            dataset,
            network: NetworkArgs::read(config)?,
            task,
            optimizer: OptimizerArgs::read(config)?,
            parallel: TensorModelParallelArgs::read(config)?,
            sequential: SequentialArgs::read(config)?,
        };
        Ok((args, skipped))
    }
}
