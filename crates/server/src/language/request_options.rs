//! What every generating route reads besides its prompt: which model, how to generate, who first.
//!
//! All routes know all names of an option: OpenAI's, the ones other servers added, and the ones
//! of the `transformers` library. They differ only in the defaults. Values are checked where they
//! are resolved, in the engine; here only their types.

use serde_json::{Map, Value};
use terrace_engine::TokenId;
use terrace_engine::guidance::Grammar;
use terrace_engine::text::{GenerationConfig, Prompt, TextRequest};
use terrace_engine::{Priority, RequestRetention, RequestedKvCache};
use terrace_model::SpecialTokens;

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::ids;
use crate::language::kv_cache_fields::take_kv_cache;
use crate::language::retention_fields::take_retention;
use crate::limits::Limits;
use crate::middleware::Caller;
use crate::structured_output::take_grammar;

/// The default sets nothing: all is left to the presets.
#[derive(Clone, Debug, Default)]
pub struct RequestOptions {
    /// `None` means the only model there is.
    pub model: Option<String>,
    pub generation: GenerationConfig,
    pub priority: Priority,
    pub cache_salt: String,
    pub kv_cache: RequestedKvCache,
    /// The name or id of the handle that it goes on from.
    pub handle: Option<String>,
    pub caller: Caller,
    /// Of the pages that it leaves behind.
    pub retention: RequestRetention,
    pub grammar: Option<Grammar>,
    /// Whether special tokens are part of the output's text.
    pub special: SpecialTokens,
    /// Whether the stop text that ended an output is part of it.
    pub include_stop_text: bool,
    /// Keep only so many of the prompt's last tokens.
    pub truncate_prompt_tokens: Option<usize>,
    /// Whether the response has the ids of the prompt's and the output's tokens.
    pub returns_token_ids: bool,
    /// Names under which the client gave options that have another name in the engine.
    aliases: Vec<(&'static str, &'static str)>,
}

/// Names of the longest output, the engine's last.
const LENGTH_NAMES: [&str; 4] =
    ["max_tokens", "max_completion_tokens", "n_predict", "max_new_tokens"];
const LEAST_LENGTH_NAMES: [&str; 2] = ["min_tokens", "min_new_tokens"];

impl RequestOptions {
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        let aliases = [&LENGTH_NAMES[..], &LEAST_LENGTH_NAMES].into_iter().filter_map(|names| {
            let given = names.iter().find(|name| fields.kind_of(name).is_some())?;
            Some((*names.last()?, *given))
        });
        let aliases = aliases.collect();
        let kv_cache = take_kv_cache(fields)?;
        if kv_cache.handle.is_some() {
            refuse_beside_handle(fields)?;
        }
        let options = Self {
            aliases,
            model: take_model(fields)?,
            generation: take_generation(fields)?,
            priority: Priority(fields.take("priority")?.unwrap_or_default()),
            cache_salt: take_cache_salt(fields)?,
            retention: take_retention(fields, &kv_cache)?,
            kv_cache: kv_cache.requested,
            handle: kv_cache.handle,
            caller: fields.caller,
            grammar: take_grammar(fields)?,
            special: match fields.take("skip_special_tokens")? {
                Some(false) => SpecialTokens::Keep,
                _ => SpecialTokens::Skip,
            },
            include_stop_text: fields.take("include_stop_str_in_output")?.unwrap_or(false),
            truncate_prompt_tokens: fields.take("truncate_prompt_tokens")?,
            returns_token_ids: fields.take("return_token_ids")?.unwrap_or(false),
        };
        refuse_beams(fields)?;
        fields.ignore(&HARMLESS);
        Ok(options)
    }

    /// Remembers under which name the client gave an option of the engine's.
    pub fn alias(&mut self, ours: &'static str, given: &'static str) {
        self.aliases.push((ours, given));
    }

    /// Outputs of each prompt. Presets have no say in it: the response's shape depends on it.
    pub fn choices(&self) -> usize {
        self.generation.n.unwrap_or(1)
    }

    /// How many outputs the request has in all. Comes before anything is made for each of them.
    pub fn check_choices(&self, prompts: usize, limits: &Limits) -> ApiResult<usize> {
        let choices = self.choices();
        match prompts.checked_mul(choices) {
            Some(0) => Err(ApiError::invalid("n", "n is 0: it must be at least 1")),
            Some(outputs) if outputs <= limits.choices => Ok(outputs),
            _ => {
                let limit = limits.choices;
                let message =
                    format!("{prompts} prompts times {choices} outputs: the limit is {limit}");
                Err(ApiError::invalid("n", message))
            }
        }
    }

    /// The engine's complaint, about the names that the client gave.
    pub fn in_clients_words(&self, error: ApiError) -> ApiError {
        self.aliases.iter().fold(error, |error, (ours, given)| error.about(ours, given))
    }

    pub fn text_request(
        &self,
        prompt: Prompt,
        presets: &GenerationConfig,
        defaults: RouteDefaults,
    ) -> TextRequest {
        let generation = GenerationConfig { n: Some(self.choices()), ..self.generation.clone() };
        TextRequest {
            defaults: defaults.generation,
            default_new_tokens: defaults.new_tokens,
            priority: self.priority,
            cache_salt: self.cache_salt.clone(),
            kv_cache: self.kv_cache.clone(),
            retention: self.retention.clone(),
            grammar: self.grammar.clone(),
            special: self.special,
            include_stop_text: self.include_stop_text,
            truncate_prompt_tokens: self.truncate_prompt_tokens,
            ..TextRequest::new(prompt, generation.or(presets))
        }
    }
}

/// Which model is meant; an empty name means the only one there is.
pub fn take_model(fields: &mut Fields) -> ApiResult<Option<String>> {
    Ok(fields.take::<String>("model")?.filter(|name| !name.is_empty()))
}

/// What a route does when nobody says anything.
pub struct RouteDefaults {
    generation: GenerationConfig,
    /// `None`: as many as fit.
    new_tokens: Option<usize>,
}

impl RouteDefaults {
    pub fn openai_chat() -> Self {
        RouteDefaults { generation: GenerationConfig::openai_defaults(), new_tokens: None }
    }

    /// 16 new tokens, as OpenAI documents it.
    pub fn openai_completions() -> Self {
        RouteDefaults { new_tokens: Some(16), ..RouteDefaults::openai_chat() }
    }

    /// As Ollama samples. Its penalty for what was said in the last 64 tokens is not among them:
    /// penalties here look at the whole text.
    pub fn ollama() -> Self {
        let generation = GenerationConfig {
            temperature: Some(0.8),
            top_k: Some(40),
            top_p: Some(0.9),
            ..GenerationConfig::openai_defaults()
        };
        RouteDefaults { generation, new_tokens: None }
    }

    /// 256 new tokens, as ColossalAI-Inference has it.
    pub fn colossalai() -> Self {
        RouteDefaults { generation: GenerationConfig::colossalai_defaults(), new_tokens: Some(256) }
    }
}

/// Names from OpenAI's API that are about bookkeeping, not about the output.
const HARMLESS: [&str; 6] =
    ["user", "metadata", "store", "safety_identifier", "service_tier", "prediction"];

fn take_generation(fields: &mut Fields) -> ApiResult<GenerationConfig> {
    let max_choices = i64::try_from(fields.max_choices).unwrap_or(i64::MAX);
    Ok(GenerationConfig {
        do_sample: fields.take("do_sample")?,
        repetition_penalty: fields.take("repetition_penalty")?,
        no_repeat_ngram_size: fields.take("no_repeat_ngram_size")?,
        forced_eos_token_id: fields.take("forced_eos_token_id")?,
        logit_bias: take_logit_bias(fields)?,
        seed: take_seed(fields)?,
        stop: fields.take_texts("stop")?,
        stop_token_ids: fields.take("stop_token_ids")?,
        bad_words: fields.take("bad_words")?,
        min_new_tokens: fields.take_alias(&LEAST_LENGTH_NAMES)?,
        max_new_tokens: take_length(fields)?,
        max_length: fields.take("max_length")?,
        ignore_eos: fields.take("ignore_eos")?,
        n: fields.take_in("n", 1..=max_choices)?.and_then(|n| usize::try_from(n).ok()),
        // The routes take logprobs and prompt_logprobs in their own ways.
        ..take_sampling(fields)?
    })
}

/// What these routes and Ollama's call by the same names.
pub fn take_sampling(fields: &mut Fields) -> ApiResult<GenerationConfig> {
    let top_k: Option<i64> = fields.take("top_k")?;
    Ok(GenerationConfig {
        temperature: fields.take("temperature")?,
        // Some servers write "all tokens" as -1, we write it as 0.
        top_k: top_k.map(|top_k| usize::try_from(top_k).unwrap_or(0)),
        top_p: fields.take("top_p")?,
        min_p: fields.take("min_p")?,
        typical_p: fields.take("typical_p")?,
        presence_penalty: fields.take("presence_penalty")?,
        frequency_penalty: fields.take("frequency_penalty")?,
        ..GenerationConfig::default()
    })
}

fn take_cache_salt(fields: &mut Fields) -> ApiResult<String> {
    let salt = fields.take("cache_salt")?;
    match fields.take("cache_prompt")? {
        // Nobody else has this salt, so no page is shared.
        Some(false) => Ok(ids::unique("once-")),
        _ => Ok(salt.unwrap_or_default()),
    }
}

/// What a request that goes on from a handle cannot choose.
fn refuse_beside_handle(fields: &Fields) -> ApiResult<()> {
    for (name, why) in [
        ("cache_salt", "the handle has the salt that it was made with"),
        ("cache_prompt", "what it goes on from is chosen by the handle"),
        ("truncate_prompt_tokens", "all of the prompt follows the handle"),
    ] {
        if fields.kind_of(name).is_some() {
            let message = format!("{name} cannot be given with kv_cache.handle: {why}");
            return Err(ApiError::invalid(name, message));
        }
    }
    Ok(())
}

/// Some servers write "as long as it fits" as -1.
fn take_length(fields: &mut Fields) -> ApiResult<Option<usize>> {
    let length: Option<i64> = fields.take_alias(&LENGTH_NAMES)?;
    Ok(length.and_then(|length| usize::try_from(length).ok()))
}

/// OpenAI's seeds are signed, ours are not; the bits are the same.
fn take_seed(fields: &mut Fields) -> ApiResult<Option<u64>> {
    let Some(json) = fields.take_raw("seed") else { return Ok(None) };
    let signed = || json.get().parse::<i64>().map(i64::cast_unsigned);
    match json.get().parse::<u64>().or_else(|_| signed()) {
        Ok(seed) => Ok(Some(seed)),
        Err(_) => Err(ApiError::invalid("seed", "seed must be a 64-bit integer")),
    }
}

/// JSON's keys are strings, so token ids come as strings here.
fn take_logit_bias(fields: &mut Fields) -> ApiResult<Option<Vec<(TokenId, f32)>>> {
    let Some(bias) = fields.take::<Map<String, Value>>("logit_bias")? else { return Ok(None) };
    let entry = |(id, bias): (String, Value)| match (id.parse::<TokenId>(), bias.as_f64()) {
        (Ok(id), Some(bias)) => Ok((id, bias as f32)),
        _ => {
            let message = format!("logit_bias: {id:?}: {bias} is not a token id and a number");
            Err(ApiError::invalid("logit_bias", message))
        }
    };
    bias.into_iter().map(entry).collect::<Result<_, _>>().map(Some)
}

/// Beam search is not made here; one beam is ordinary generation.
fn refuse_beams(fields: &mut Fields) -> ApiResult<()> {
    let reason = "there is no beam search here; use n for several outputs";
    match fields.take::<usize>("num_beams")? {
        None | Some(1) => {}
        Some(_) => {
            return Err(ApiError::invalid("num_beams", format!("num_beams: {reason}")));
        }
    }
    // These two only steer a beam search.
    fields.ignore(&["early_stopping", "length_penalty"]);
    fields.refuse("use_beam_search", reason)
}

#[cfg(test)]
mod tests;
