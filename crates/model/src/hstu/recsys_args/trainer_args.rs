//! How a model is trained; nothing of it acts at inference but the evaluation's sizes.

use super::classes;
use crate::gin::{GinArgs, GinConfig, GinError};

#[derive(Clone, Debug, PartialEq)]
pub struct TrainerArgs {
    pub train_batch_size: usize,
    pub eval_batch_size: usize,
    pub eval_interval: usize,
    pub log_interval: usize,
    pub max_train_iters: Option<usize>,
    pub max_eval_iters: Option<usize>,
    pub seed: i64,
    pub profile: bool,
    pub profile_step_start: usize,
    pub profile_step_end: usize,
    /// `None` where no checkpoints are saved.
    pub ckpt_save_interval: Option<usize>,
    pub ckpt_save_dir: String,
    /// Empty where training starts anew.
    pub ckpt_load_dir: String,
    pub pipeline_type: PipelineType,
    pub enable_balanced_shuffler: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineType {
    None,
    Native,
    Prefetch,
}

const PIPELINE_TYPES: [(&str, PipelineType); 3] = [
    ("none", PipelineType::None),
    ("native", PipelineType::Native),
    ("prefetch", PipelineType::Prefetch),
];

impl TrainerArgs {
    /// `None` where nothing of it is set: files for inference have none.
    pub fn read(config: &GinConfig) -> Result<Option<Self>, GinError> {
        let args = GinArgs::new(config, "", &classes::TRAINER);
        if !args.has_any() {
            return Ok(None);
        }
        Ok(Some(TrainerArgs {
            train_batch_size: args.required("train_batch_size")?,
            eval_batch_size: args.required("eval_batch_size")?,
            eval_interval: args.or("eval_interval", 100)?,
            log_interval: args.or("log_interval", 100)?,
            max_train_iters: args.get("max_train_iters")?,
            max_eval_iters: args.get("max_eval_iters")?,
            seed: args.or("seed", 1234)?,
            profile: args.or("profile", false)?,
            profile_step_start: args.or("profile_step_start", 100)?,
            profile_step_end: args.or("profile_step_end", 200)?,
            ckpt_save_interval: usize::try_from(args.or("ckpt_save_interval", -1i64)?).ok(),
            ckpt_save_dir: args.or("ckpt_save_dir", "./checkpoints".to_owned())?,
            ckpt_load_dir: args.or("ckpt_load_dir", String::new())?,
            pipeline_type: args
                .one_of("pipeline_type", &PIPELINE_TYPES)?
                .unwrap_or(PipelineType::Native),
            enable_balanced_shuffler: args.or("enable_balanced_shuffler", false)?,
        }))
    }
}
