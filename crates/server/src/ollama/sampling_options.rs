//! The `options` of Ollama's requests: how tokens are sampled, and how the model was loaded.
//!
//! What concerns loading (threads, GPUs, batches, memory mapping) is the server's own and ignored;
//! a context that the model was not loaded with, and ways of sampling that are not there, are
//! refused.

use terrace_engine::guidance::Grammar;
use terrace_engine::text::GenerationConfig;

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::language::{RequestOptions, ServedModel, take_sampling};

#[derive(Clone, Debug, Default)]
pub struct SamplingOptions {
    pub generation: GenerationConfig,
    num_ctx: Option<usize>,
}

/// How a model is loaded and run; set when the server was started. `num_keep` says what
/// stays when a full context is shifted, which is not done here.
const OF_THE_SERVER: [&str; 13] = [
    "embedding_only",
    "f16_kv",
    "logits_all",
    "low_vram",
    "main_gpu",
    "num_batch",
    "num_gpu",
    "num_keep",
    "num_thread",
    "numa",
    "use_mlock",
    "use_mmap",
    "vocab_only",
];

/// The engine's names of options, and Ollama's.
const NAMES: [(&str, &str); 10] = [
    ("temperature", "options.temperature"),
    ("top_k", "options.top_k"),
    ("top_p", "options.top_p"),
    ("min_p", "options.min_p"),
    ("typical_p", "options.typical_p"),
    ("repetition_penalty", "options.repeat_penalty"),
    ("presence_penalty", "options.presence_penalty"),
    ("frequency_penalty", "options.frequency_penalty"),
    ("stop", "options.stop"),
    ("max_new_tokens", "options.num_predict"),
];

impl SamplingOptions {
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        let Some(mut options) = fields.take_object("options")? else { return Ok(Self::default()) };
        let num_predict: Option<i64> = options.take("num_predict")?;
        let mut generation = GenerationConfig {
            repetition_penalty: options.take("repeat_penalty")?,
            seed: take_seed(&mut options)?,
            stop: options.take_texts("stop")?.filter(|stops| !stops.is_empty()),
            // -1 has no end and -2 fills the context: both are as many as fit.
            max_new_tokens: num_predict.and_then(|tokens| usize::try_from(tokens).ok()),
            ..take_sampling(&mut options)?
        };
        take_window(&mut options, &mut generation)?;
        refuse_other_samplers(&mut options)?;
        let num_ctx = options.take("num_ctx")?;
        options.ignore(&OF_THE_SERVER);
        options.finish()?;
        Ok(Self { generation, num_ctx })
    }

    /// A context that is larger than the model's is not there.
    pub fn check_context(&self, model: &ServedModel) -> ApiResult<()> {
        let context = model.context_tokens();
        match self.num_ctx {
            Some(wanted) if wanted > context => {
                let message = format!(
                    "options.num_ctx is {wanted}: {:?} is served with a context of {context} \
                     tokens; ask for at most that, or start the server with a larger \
                     --max-context-len or --kv-memory",
                    model.name()
                );
                Err(ApiError::invalid("options.num_ctx", message))
            }
            _ => Ok(()),
        }
    }

    /// A request to this model, whose complaints have the names that the client gave.
    pub fn request(
        self,
        model: &ServedModel,
        grammar: Option<Grammar>,
        logprobs: Option<usize>,
    ) -> RequestOptions {
        let mut options = RequestOptions::default();
        options.model = Some(model.name().to_owned());
        options.generation = GenerationConfig { logprobs, ..self.generation };
        options.grammar = grammar;
        for (ours, given) in NAMES {
            options.alias(ours, given);
        }
        options
    }
}

/// The engine's complaint about a length, by Ollama's name of it.
pub fn in_clients_words(error: ApiError) -> ApiError {
    error.reworded("max_tokens", "options.num_predict")
}

/// -1 means any.
fn take_seed(options: &mut Fields) -> ApiResult<Option<u64>> {
    let Some(json) = options.take_raw("seed") else { return Ok(None) };
    match json.get().parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(seed) => Ok(Some(seed.cast_unsigned())),
        Err(_) => {
            let path = options.path_of("seed");
            let message = format!("{path} must be a 64-bit integer; -1 draws one");
            Err(ApiError::invalid(&path, message))
        }
    }
}

/// How far back repeated tokens are looked for. Penalties here look at all of the text, which is
/// what -1 asks for; 0 asks for none of them; a window in between is not there.
fn take_window(options: &mut Fields, generation: &mut GenerationConfig) -> ApiResult<()> {
    let window: Option<i64> = options.take("repeat_last_n")?;
    let newlines: Option<bool> = options.take("penalize_newline")?;
    let is_neutral = |penalty: Option<f32>, neutral: f32| penalty.is_none_or(|p| p == neutral);
    let penalises = !is_neutral(generation.repetition_penalty, 1.0)
        || !is_neutral(generation.presence_penalty, 0.0)
        || !is_neutral(generation.frequency_penalty, 0.0);
    if let Some(window @ 1..) = window
        && penalises
    {
        let path = options.path_of("repeat_last_n");
        let message = format!(
            "{path} is {window}: penalties look at the whole text here; give -1 for that, or 0 \
             for no penalties"
        );
        return Err(ApiError::invalid(&path, message));
    }
    if newlines == Some(false) && penalises && window != Some(0) {
        let path = options.path_of("penalize_newline");
        let message = format!("{path} is false: penalties are for all tokens here");
        return Err(ApiError::invalid(&path, message));
    }
    if window == Some(0) {
        generation.repetition_penalty = Some(1.0);
        generation.presence_penalty = Some(0.0);
        generation.frequency_penalty = Some(0.0);
    }
    Ok(())
}

/// Ways of sampling that are not there, unless they are switched off.
fn refuse_other_samplers(options: &mut Fields) -> ApiResult<()> {
    for (name, off) in [("mirostat", 0.0), ("tfs_z", 1.0)] {
        if let Some(value) = options.take::<f32>(name)?
            && value != off
        {
            let path = options.path_of(name);
            let message = format!(
                "{path} is {value}: it is not supported, so it must be {off}, which turns it off; \
                 top_p, top_k, min_p and typical_p are there"
            );
            return Err(ApiError::invalid(&path, message));
        }
    }
    // They steer mirostat alone.
    options.ignore(&["mirostat_eta", "mirostat_tau"]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn take(options: Value) -> ApiResult<SamplingOptions> {
        let body = json!({ "options": options }).to_string();
        SamplingOptions::take(&mut Fields::parse(body.as_bytes())?)
    }

    #[track_caller]
    fn check(options: Value, want: GenerationConfig) {
        assert_eq!(take(options).unwrap().generation, want);
    }

    #[track_caller]
    fn check_refused(options: Value, want: &str) {
        take(options).unwrap_err().check_begins(want);
    }

    #[test]
    fn options_have_ollamas_names() {
        check(
            json!({"temperature": 0.5, "top_k": 20, "top_p": 0.7, "min_p": 0.1, "seed": 7,
                   "typical_p": 0.9,
                   "repeat_penalty": 1.3, "presence_penalty": 0.1, "frequency_penalty": 0.2,
                   "num_predict": 9, "stop": ["a", "b"], "repeat_last_n": -1}),
            GenerationConfig {
                temperature: Some(0.5),
                top_k: Some(20),
                top_p: Some(0.7),
                min_p: Some(0.1),
                typical_p: Some(0.9),
                seed: Some(7),
                repetition_penalty: Some(1.3),
                presence_penalty: Some(0.1),
                frequency_penalty: Some(0.2),
                max_new_tokens: Some(9),
                stop: Some(vec!["a".to_owned(), "b".to_owned()]),
                ..GenerationConfig::default()
            },
        );
    }

    #[test]
    fn no_limit_is_written_in_two_ways() {
        check(json!({"num_predict": -1, "seed": -1}), GenerationConfig::default());
        check(json!({"num_predict": -2, "stop": []}), GenerationConfig::default());
        check_refused(json!({"num_predict": -3}), "options.num_predict is -3: it must be");
    }

    #[test]
    fn a_length_that_does_not_fit_has_ollamas_name() {
        let error = terrace_engine::Error::ContextTooLong {
            tokens: 600,
            prompt: 100,
            new: 500,
            limit: 512,
        };
        let error = in_clients_words(error.into());
        assert!(error.message().ends_with("lower options.num_predict"), "{}", error.message());
    }

    #[test]
    fn what_the_server_was_started_with_is_ignored() {
        check(
            json!({"num_keep": 5, "num_batch": 2, "num_gpu": -1, "main_gpu": 0, "num_thread": 8,
                   "use_mmap": true, "numa": false, "low_vram": true}),
            GenerationConfig::default(),
        );
        check_refused(json!({"rope": 1}), "unknown field \"options.rope\"");
    }

    #[test]
    fn a_window_for_penalties_is_refused_where_it_would_act() {
        check(json!({"repeat_last_n": 64}), GenerationConfig::default());
        check_refused(
            json!({"repeat_last_n": 64, "repeat_penalty": 1.1}),
            "options.repeat_last_n is 64: penalties look at the whole text here",
        );
        check_refused(
            json!({"penalize_newline": false, "repeat_penalty": 1.1}),
            "options.penalize_newline is false",
        );
        let off = take(json!({"repeat_last_n": 0, "repeat_penalty": 1.1})).unwrap().generation;
        assert_eq!(off.repetition_penalty, Some(1.0));
    }

    #[test]
    fn samplers_that_are_not_there_must_be_off() {
        check(
            json!({"mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1, "tfs_z": 1}),
            GenerationConfig::default(),
        );
        check_refused(json!({"mirostat": 2}), "options.mirostat is 2: it is not supported");
        check_refused(json!({"tfs_z": 0.9}), "options.tfs_z is 0.9: it is not supported");
    }
}
