//! How a model learns, and over how many GPUs; nothing of it acts at inference.

use super::classes;
use crate::gin::{GinArgs, GinConfig, GinError};

#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerArgs {
    pub optimizer_str: String,
    pub learning_rate: f64,
    pub adam_beta1: f64,
    pub adam_beta2: f64,
    pub adam_eps: f64,
}

impl OptimizerArgs {
    /// `None` where nothing of it is set: files for inference have none.
    pub fn read(config: &GinConfig) -> Result<Option<Self>, GinError> {
        let args = GinArgs::new(config, "", &classes::OPTIMIZER);
        if !args.has_any() {
            return Ok(None);
        }
        Ok(Some(OptimizerArgs {
            optimizer_str: args.required("optimizer_str")?,
            learning_rate: args.required("learning_rate")?,
            adam_beta1: args.or("adam_beta1", 0.9)?,
            adam_beta2: args.or("adam_beta2", 0.999)?,
            adam_eps: args.or("adam_eps", 1e-8)?,
        }))
    }
}

/// Over how many GPUs each layer was cut; its checkpoint then has a part for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorModelParallelArgs {
    pub tensor_model_parallel_size: usize,
}

impl TensorModelParallelArgs {
    pub fn read(config: &GinConfig) -> Result<Self, GinError> {
        let args = GinArgs::new(config, "", &classes::PARALLEL);
        let tensor_model_parallel_size = args.or("tensor_model_parallel_size", 1)?;
        Ok(TensorModelParallelArgs { tensor_model_parallel_size })
    }
}
