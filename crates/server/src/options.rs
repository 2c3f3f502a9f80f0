//! What every generating route reads besides its prompt: which model, how to generate, who first.
//!
//! All routes know all names of an option: OpenAI's, the ones other servers added, and the ones
//! of the `transformers` library. They differ only in the defaults. Values are checked where they
//! are resolved, in the engine; here only their types.

use serde_json::{Map, Value};
use terrace_engine::guidance::Grammar;
use terrace_engine::text::{GenerationConfig, Prompt, TextRequest};
use terrace_engine::{KvCacheWishes, Lengths, Priority, TokenId};
use terrace_model::SpecialTokens;

use crate::answer_form::{AnswerForm, take_grammar};
use crate::api_error::ApiError;
use crate::fields::Fields;

#[derive(Clone, Debug)]
pub struct RequestOptions {
    /// `None` means the only model there is.
    pub model: Option<String>,
    pub generation: GenerationConfig,
    pub priority: Priority,
    pub cache_salt: String,
    pub kv_cache: KvCacheWishes,
    pub grammar: Option<Grammar>,
}

impl RequestOptions {
    pub fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let model = fields.take::<String>("model")?.filter(|name| !name.is_empty());
        let generation = take_generation(fields)?;
        let priority = Priority(fields.take("priority")?.unwrap_or_default());
        let cache_salt = fields.take("cache_salt")?.unwrap_or_default();
        let kv_cache = take_kv_cache(fields)?;
        let AnswerForm { grammar, warnings } = take_grammar(fields)?;
        for warning in warnings {
            tracing::info!(warning, "a form is taken otherwise than it is written");
        }
        refuse_beams(fields)?;
        fields.ignore(&HARMLESS);
        Ok(Self { model, generation, priority, cache_salt, kv_cache, grammar })
    }

    /// Answers to each prompt. Presets have no say in it: the answer's shape depends on it.
    pub fn choices(&self) -> usize {
        self.generation.n.unwrap_or(1)
    }

    pub fn text_request(
        &self,
        prompt: Prompt,
        presets: &GenerationConfig,
        defaults: RouteDefaults,
    ) -> TextRequest {
        let generation = GenerationConfig { n: Some(self.choices()), ..self.generation.clone() };
        TextRequest {
            prompt,
            generation: generation.or(presets),
            defaults: defaults.generation,
            default_new_tokens: defaults.new_tokens,
            priority: self.priority,
            cache_salt: self.cache_salt.clone(),
            kv_cache: self.kv_cache.clone(),
            cache_trace: false,
            processors: Vec::new(),
            grammar: self.grammar.clone(),
            guide: None,
            special: SpecialTokens::Skip,
        }
    }
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

    /// 256 new tokens, as the engine's own configuration has it.
    pub fn seed() -> Self {
        RouteDefaults { generation: GenerationConfig::seed_defaults(), new_tokens: Some(256) }
    }
}

/// Names from OpenAI's API that are about bookkeeping, not about the answer.
const HARMLESS: [&str; 7] = [
    "user",
    "metadata",
    "safety_identifier",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prediction",
];

fn take_generation(fields: &mut Fields) -> Result<GenerationConfig, ApiError> {
    Ok(GenerationConfig {
        do_sample: fields.take("do_sample")?,
        temperature: fields.take("temperature")?,
        top_k: take_top_k(fields)?,
        top_p: fields.take("top_p")?,
        min_p: fields.take("min_p")?,
        repetition_penalty: fields.take("repetition_penalty")?,
        presence_penalty: fields.take("presence_penalty")?,
        frequency_penalty: fields.take("frequency_penalty")?,
        no_repeat_ngram_size: fields.take("no_repeat_ngram_size")?,
        forced_eos_token_id: fields.take("forced_eos_token_id")?,
        logit_bias: take_logit_bias(fields)?,
        seed: take_seed(fields)?,
        stop: fields.take_texts("stop")?,
        stop_token_ids: fields.take("stop_token_ids")?,
        min_new_tokens: fields.take_alias(&["min_tokens", "min_new_tokens"])?,
        max_new_tokens: fields.take_alias(&[
            "max_tokens",
            "max_completion_tokens",
            "max_new_tokens",
        ])?,
        max_length: fields.take("max_length")?,
        ignore_eos: fields.take("ignore_eos")?,
        n: fields.take("n")?,
        // The routes ask for these in their own ways.
        logprobs: None,
        prompt_logprobs: None,
    })
}

/// Lengths by layer make a kind of cache of their own, for which an engine keeps books; only a
/// server may ask for one.
fn take_kv_cache(fields: &mut Fields) -> Result<KvCacheWishes, ApiError> {
    let wishes: KvCacheWishes = fields.take("kv_cache")?.unwrap_or_default();
    match wishes.cache_length {
        Some(Lengths::EachLayer(_)) => Err(ApiError::invalid(
            "kv_cache",
            "kv_cache.cache_length is a list: a request gives one number for all layers; lengths \
             by layer are the server's option",
        )),
        _ => Ok(wishes),
    }
}

/// Some servers write "all tokens" as -1, we write it as 0.
fn take_top_k(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    match fields.take::<i64>("top_k")? {
        None => Ok(None),
        Some(-1) => Ok(Some(0)),
        Some(top_k) => usize::try_from(top_k).map(Some).map_err(|_| {
            ApiError::invalid("top_k", format!("top_k is {top_k}: give 0 or -1 for all tokens"))
        }),
    }
}

/// OpenAI's seeds are signed, ours are not; the bits are the same.
fn take_seed(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    match fields.take::<Value>("seed")? {
        None => Ok(None),
        Some(seed) => match seed.as_u64().or_else(|| seed.as_i64().map(i64::cast_unsigned)) {
            Some(seed) => Ok(Some(seed)),
            None => Err(ApiError::invalid("seed", "seed must be a 64-bit integer")),
        },
    }
}

/// JSON's keys are strings, so token ids come as strings here.
fn take_logit_bias(fields: &mut Fields) -> Result<Option<Vec<(TokenId, f32)>>, ApiError> {
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
fn refuse_beams(fields: &mut Fields) -> Result<(), ApiError> {
    let reason = "there is no beam search here; ask for n answers instead";
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
