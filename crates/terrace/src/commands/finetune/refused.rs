//! Arguments of keys_values that have nothing to act on here. Each is refused with the reason, or
//! taken where it says what is so anyway.

use crate::options::flag;

pub fn tie_embeddings(text: &str) -> Result<bool, String> {
    flag(text)?;
    Err("a model's files say whether its head is its embedding; leave it out".to_owned())
}

pub fn intermediate(_: &str) -> Result<u64, String> {
    Err("models are saved after steps alone; give --train.save-interval".to_owned())
}

pub fn max_new_tokens(_: &str) -> Result<u64, String> {
    Err("nothing is generated to be looked at; --eval.use-sample-metric counts right answers, of \
         as many tokens as --eval.sample-metric-max-generated-tokens says"
        .to_owned())
}

pub fn match_trials(_: &str) -> Result<u64, String> {
    Err("there is no autograd graph to search: gradients are computed without one; leave it out"
        .to_owned())
}

pub fn other_attention(text: &str) -> Result<bool, String> {
    fixed(text, false, "attention over slots is one kernel here")
}

pub fn fused(text: &str) -> Result<bool, String> {
    fixed(text, true, "it is part of the kernels here")
}

pub fn attention_number(_: &str) -> Result<u64, String> {
    Err("attention over slots is one kernel here, which is not tuned so; leave it out".to_owned())
}

pub fn temporary_size(_: &str) -> Result<f64, String> {
    Err("attention's weights are never in memory here; leave it out".to_owned())
}

pub fn profile(text: &str) -> Result<bool, String> {
    fixed(text, false, "`terrace bench tune` says where the time goes")
}

pub fn quantiles(_: &str) -> Result<String, String> {
    Err("weights' sizes are not logged; leave it out".to_owned())
}

pub fn generate_with_eval(text: &str) -> Result<bool, String> {
    fixed(text, false, "validation has a loss, and generates nothing")
}

/// A flag that has one value here, whatever is asked.
fn fixed(text: &str, value: bool, why: &str) -> Result<bool, String> {
    match flag(text)? == value {
        true => Ok(value),
        false => Err(format!("{why}: leave it out")),
    }
}
