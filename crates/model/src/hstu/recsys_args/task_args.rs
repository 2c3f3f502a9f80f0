//! What a model is asked for: scores of candidates, or the next item.

use super::classes;
use crate::gin::{GinArgs, GinConfig, GinError};
use crate::hstu::hstu_config::HeadActivation;

#[derive(Clone, Debug, PartialEq)]
pub struct RankingArgs {
    /// Outputs of the head's layers.
    pub prediction_head_arch: Vec<usize>,
    pub prediction_head_act_type: HeadActivation,
    pub prediction_head_bias: bool,
    pub num_tasks: usize,
    /// In capitals.
    pub eval_metrics: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RetrievalArgs {
    /// Acts in training alone, and -1 stands for none; so do the next two.
    pub num_negatives: i64,
    pub temperature: f64,
    pub l2_norm_eps: f64,
    pub eval_metrics: Vec<String>,
}

const ACTIVATIONS: [(&str, HeadActivation); 2] =
    [("relu", HeadActivation::Relu), ("gelu", HeadActivation::Gelu)];

impl RankingArgs {
    /// `None` where nothing of it is set: such a model retrieves.
    pub fn read(config: &GinConfig) -> Result<Option<Self>, GinError> {
        let args = GinArgs::new(config, "", &classes::RANKING);
        if !args.has_any() {
            return Ok(None);
        }
        let activation = args.one_of("prediction_head_act_type", &ACTIVATIONS)?;
        let metrics = metrics(&args, &["AUC"])?;
        Ok(Some(RankingArgs {
            prediction_head_arch: args.required("prediction_head_arch")?,
            prediction_head_act_type: activation.unwrap_or_default(),
            prediction_head_bias: args.or("prediction_head_bias", true)?,
            num_tasks: args.or("num_tasks", 1)?,
            eval_metrics: metrics.iter().map(|metric| metric.to_uppercase()).collect(),
        }))
    }
}

impl RetrievalArgs {
    pub fn read(config: &GinConfig) -> Result<Self, GinError> {
        let args = GinArgs::new(config, "", &classes::RETRIEVAL);
        Ok(RetrievalArgs {
            num_negatives: args.or("num_negatives", -1)?,
            temperature: args.or("temperature", 0.05)?,
            l2_norm_eps: args.or("l2_norm_eps", 1e-6)?,
            eval_metrics: metrics(&args, &["HR@10", "NDCG@10"])?,
        })
    }
}

/// A single one may stand without a list: `("AUC")` is a string to Python.
fn metrics(args: &GinArgs<'_>, default: &[&str]) -> Result<Vec<String>, GinError> {
    match args.get::<String>("eval_metrics") {
        Ok(Some(metric)) => Ok(vec![metric]),
        Ok(None) => Ok(default.iter().map(|metric| (*metric).to_owned()).collect()),
        Err(_) => args.required("eval_metrics"),
    }
}
