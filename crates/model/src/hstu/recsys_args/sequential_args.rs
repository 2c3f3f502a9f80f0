//! What our own trainer evaluates sequential models by: each user's last item, among others.

use super::classes;
use crate::gin::{GinArgs, GinConfig, GinError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequentialArgs {
    /// Items that a user's last one is ranked among.
    pub eval_negatives: usize,
    pub eval_sampling: EvalSampling,
}

/// How items are drawn that a user never had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvalSampling {
    /// Each that any user had is as likely.
    Uniform,
    /// As likely as it is frequent.
    Popularity,
}

const SAMPLINGS: [(&str, EvalSampling); 2] =
    [("uniform", EvalSampling::Uniform), ("popularity", EvalSampling::Popularity)];

impl SequentialArgs {
    /// `None` unless they are enabled.
    pub fn read(config: &GinConfig) -> Result<Option<Self>, GinError> {
        let args = GinArgs::new(config, "", &classes::SEQUENTIAL);
        if !args.or("enabled", false)? {
            return Ok(None);
        }
        let sampling = args.one_of("eval_sampling", &SAMPLINGS)?;
        Ok(Some(SequentialArgs {
            eval_negatives: args.or("eval_negatives", 100)?,
            eval_sampling: sampling.unwrap_or(EvalSampling::Uniform),
        }))
    }
}
