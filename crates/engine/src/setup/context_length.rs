//! How long sequences may get, and a rotation of the model that goes so far.

use terrace_model::{DecoderSpec, TrainedRope};

use crate::error::Error;
use crate::setup::inference_config::InferenceConfig;
use crate::setup::yarn_rope::YarnRope;

/// The model for the longest sequence that is asked for.
pub(crate) fn for_context(
    spec: DecoderSpec,
    config: &InferenceConfig,
) -> Result<DecoderSpec, Error> {
    let (own, asked) = (spec.context_tokens, config.max_context_len);
    let both = config.max_input_len.saturating_add(config.max_output_len);
    let longest = asked.unwrap_or(both);
    let is_scaled = spec.trained_rope.as_ref().is_some_and(TrainedRope::is_scaled);
    let longer = own < longest;
    let mut spec = match config.yarn_rope {
        Some(YarnRope::Expected) => scaled(spec, longest)?,
        Some(YarnRope::Dynamic) => following_length(spec, longest)?,
        None if asked.is_some() && longer && !is_scaled => scaled(spec, longest)?,
        _ if asked.is_some() && longer => {
            let rule = format!("the model's context is {own}; yarn_rope = true scales it");
            return Err(refused("max_context_len", longest, rule));
        }
        _ => spec,
    };
    spec.context_tokens = asked.unwrap_or(spec.context_tokens);
    Ok(spec)
}

fn scaled(spec: DecoderSpec, longest: usize) -> Result<DecoderSpec, Error> {
    let (own, trained) = (spec.context_tokens, spec.trained_rope.clone());
    let (Some(trained), Some(spec)) = (trained, spec.scaled(longest)) else {
        return Err(refused("yarn_rope", true, CANNOT_BE_SCALED.into()));
    };
    let tokens = trained.trained_tokens();
    if tokens < longest {
        tracing::info!(
            "positions are scaled from {tokens} tokens to {longest} (YaRN); the model's own \
             context is {own}"
        );
    } else if trained.is_scaled() {
        tracing::info!("the model's own scaling is left out: {longest} tokens need none");
    } else {
        tracing::info!("nothing is scaled: the model was trained for {tokens} tokens");
    }
    Ok(spec)
}

const CANNOT_BE_SCALED: &str = "this model's rotation cannot be scaled; leave it out";

fn following_length(spec: DecoderSpec, longest: usize) -> Result<DecoderSpec, Error> {
    let Some(spec) = spec.following_length(longest) else {
        return Err(refused("yarn_rope", "dynamic", CANNOT_BE_SCALED.into()));
    };
    let trained = spec.trained_rope.as_ref().map_or(0, TrainedRope::trained_tokens);
    tracing::info!("positions are scaled as texts outgrow {trained} tokens (dynamic YaRN)");
    Ok(spec)
}

fn refused(option: &'static str, value: impl ToString, rule: String) -> Error {
    Error::BadOption { option, value: value.to_string(), rule }
}
