//! Which data a model was trained on: a known data set, or features that are made up.

use super::classes;
use super::embedding_args::EmbeddingArgs;
use crate::gin::{Called, GinArgs, GinConfig, GinError};

#[derive(Clone, Debug, PartialEq)]
pub struct DatasetArgs {
    pub dataset_name: String,
    /// Items of a history.
    pub max_history_seqlen: usize,
    pub dataset_path: Option<String>,
    pub max_num_candidates: usize,
    pub shuffle: bool,
}

/// Features and tables that a file lists itself.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchmarkDatasetArgs {
    pub feature_args: Vec<FeatureArgs>,
    pub embedding_args: Vec<EmbeddingArgs>,
    pub item_feature_name: String,
    pub contextual_feature_names: Vec<String>,
    pub action_feature_name: Option<String>,
    pub max_num_candidates: usize,
    pub num_generated_batches: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FeatureArgs {
    pub feature_names: Vec<String>,
    pub max_sequence_length: usize,
    pub is_jagged: bool,
}

impl DatasetArgs {
    /// `None` where nothing of it is set.
    pub fn read(config: &GinConfig) -> Result<Option<Self>, GinError> {
        let args = GinArgs::new(config, "", &classes::DATASET);
        if !args.has_any() {
            return Ok(None);
        }
        Ok(Some(DatasetArgs {
            dataset_name: args.required("dataset_name")?,
            max_history_seqlen: args.required("max_history_seqlen")?,
            dataset_path: args.get("dataset_path")?,
            max_num_candidates: args.or("max_num_candidates", 0)?,
            shuffle: args.or("shuffle", false)?,
        }))
    }
}

impl BenchmarkDatasetArgs {
    pub fn read(config: &GinConfig) -> Result<Self, GinError> {
        let args = GinArgs::new(config, "", &classes::BENCHMARK_DATASET);
        let called = |param: &str| args.required::<Vec<Called>>(param);
        let features = called("feature_args")?;
        let tables = called("embedding_args")?;
        Ok(BenchmarkDatasetArgs {
            feature_args: features
                .iter()
                .map(|called| FeatureArgs::read(config, called))
                .collect::<Result<_, _>>()?,
            embedding_args: tables
                .iter()
                .map(|called| EmbeddingArgs::read(config, called))
                .collect::<Result<_, _>>()?,
            item_feature_name: args.required("item_feature_name")?,
            contextual_feature_names: args.required("contextual_feature_names")?,
            action_feature_name: args.get("action_feature_name")?,
            max_num_candidates: args.or("max_num_candidates", 0)?,
            num_generated_batches: args.or("num_generated_batches", 100)?,
        })
    }

    /// Items of a history.
    pub fn max_history_seqlen(&self) -> Option<usize> {
        let mut features = self.feature_args.iter();
        let items = features.find(|args| args.feature_names.contains(&self.item_feature_name))?;
        Some(items.max_sequence_length)
    }
}

impl FeatureArgs {
    /// Distributions of made up values are not read.
    fn read(config: &GinConfig, called: &Called) -> Result<Self, GinError> {
        let args = GinArgs::new(config, &called.scope, &classes::FEATURE);
        Ok(FeatureArgs {
            feature_names: args.required("feature_names")?,
            max_sequence_length: args.required("max_sequence_length")?,
            is_jagged: args.or("is_jagged", false)?,
        })
    }
}
