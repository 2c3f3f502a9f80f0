//! The fields that all generating routes take.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

#[derive(Deserialize, Serialize, ToSchema)]
pub struct GenerationFields {
    /// Which model answers, as `/v1/models` names it. May be left out while one model is served.
    model: Option<String>,
    /// Longest output in tokens.
    max_tokens: Option<usize>,
    /// Another name of `max_tokens`.
    max_completion_tokens: Option<usize>,
    /// Another name of `max_tokens`.
    max_new_tokens: Option<usize>,
    /// Another name of `max_tokens`; -1 means as long as it fits.
    n_predict: Option<i64>,
    /// Longest prompt and output together, in tokens.
    max_length: Option<usize>,
    /// The output does not end before this many tokens.
    min_tokens: Option<usize>,
    /// Another name of `min_tokens`.
    min_new_tokens: Option<usize>,
    /// Outputs to each prompt; 1 where it is left out.
    n: Option<usize>,
    /// Whether tokens are drawn at random; otherwise the most probable one is taken.
    do_sample: Option<bool>,
    /// Flattens (above 1) or sharpens (below 1) the probabilities; 0 takes the most probable token.
    temperature: Option<f32>,
    /// Draw among the best tokens that together have this probability.
    top_p: Option<f32>,
    /// Draw among this many best tokens; 0 or -1 means all.
    top_k: Option<i64>,
    /// Drop tokens below this share of the best token's probability.
    min_p: Option<f32>,
    /// Draw among the tokens whose information is closest to what is expected, until they have
    /// this probability; 1 means all.
    typical_p: Option<f32>,
    /// Makes random draws repeatable.
    seed: Option<i64>,
    /// Makes tokens that have occurred less probable; 1 changes nothing.
    repetition_penalty: Option<f32>,
    /// Subtracted from the score of each token the output has used.
    presence_penalty: Option<f32>,
    /// Subtracted once for each time the output has used the token.
    frequency_penalty: Option<f32>,
    /// No run of this many tokens occurs twice; 0 allows all.
    no_repeat_ngram_size: Option<usize>,
    /// Token id to a number from -100 to 100 that is added to its score.
    logit_bias: Option<BTreeMap<String, f32>>,
    /// One text or several that end the output.
    stop: Option<Texts>,
    /// Tokens that end the output.
    stop_token_ids: Option<Vec<u32>>,
    /// Texts that must not occur in the output.
    bad_words: Option<Vec<String>>,
    /// The stop text that ends the output is part of it.
    include_stop_str_in_output: Option<bool>,
    /// Keep only so many of the prompt's last tokens.
    truncate_prompt_tokens: Option<usize>,
    /// Go on after the end-of-text token.
    ignore_eos: Option<bool>,
    /// The last token of an output that reaches its longest length.
    forced_eos_token_id: Option<u32>,
    /// What the output must look like: `{"type": "text"}`, `{"type": "json_object"}`, or
    /// `{"type": "json_schema", "json_schema": {"name": .., "schema": ..}}`.
    response_format: Option<Map<String, Value>>,
    /// What the output must look like, as vLLM spells it.
    structured_outputs: Option<StructuredOutputs>,
    /// A grammar that the output follows, in llguidance's Lark or in GBNF.
    grammar: Option<String>,
    /// A JSON schema that the output fits.
    json_schema: Option<Map<String, Value>>,
    /// As `structured_outputs.json`.
    guided_json: Option<Map<String, Value>>,
    /// As `structured_outputs.regex`.
    guided_regex: Option<String>,
    /// As `structured_outputs.choice`.
    guided_choice: Option<Vec<String>>,
    /// As `structured_outputs.grammar`.
    guided_grammar: Option<String>,
    /// Larger goes first when not all fit; 0 is ordinary.
    priority: Option<i32>,
    /// Prefixes are shared only between requests of the same salt.
    cache_salt: Option<String>,
    /// `false` shares no prefix with any other request.
    cache_prompt: Option<bool>,
    /// `false` shows special tokens in the text.
    skip_special_tokens: Option<bool>,
    /// Report the ids of the prompt's and the output's tokens.
    return_token_ids: Option<bool>,
    /// Which tokens its cache keeps, and in how many bits; what it leaves out is the server's.
    kv_cache: Option<KvCacheFields>,
    /// The session whose conversation it is, 1 to 256 characters: its KV pages are kept until
    /// `DELETE /v1/sessions/{id}`, or until it is not used for a while.
    session_id: Option<String>,
    /// OpenAI's name of `session_id`.
    prompt_cache_key: Option<String>,
    /// How long its KV pages are kept: `in_memory`, as long as the server keeps a session that is
    /// not used, or `24h`.
    prompt_cache_retention: Option<String>,
    /// Beams of a beam search; 1 is all there is.
    num_beams: Option<usize>,
}

/// A cache that chooses and compresses.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct KvCacheFields {
    /// A policy and a buffer, such as `h2o-torch-quantized8`.
    name: Option<String>,
    /// Tokens kept in each layer.
    cache_length: Option<usize>,
    /// Tokens of the prompt that are computed, and evicted for, together.
    chunk_size: Option<usize>,
    /// Draw chunk sizes around it, from the request's seed.
    randomize_chunk_sizes: Option<bool>,
    /// Arguments of the policy.
    cache_kwargs: Option<Map<String, Value>>,
    /// As in `cache_kwargs`.
    grace_period: Option<usize>,
    /// As in `cache_kwargs`.
    init_grace_tokens: Option<usize>,
    /// As in `cache_kwargs`.
    normalize_scores: Option<bool>,
    /// Whose numbers to reproduce; no server does.
    compat: Option<String>,
    /// Write down which slot each token went to: for users of the library.
    replay_log: Option<bool>,
    /// The name or id of a handle to go on from, with its cache; instead of all other fields here.
    /// A prompt is appended to it. Messages must begin as it does.
    handle: Option<String>,
    /// Of the pages that the request leaves behind, from 0 to 100: the lower leave first. 35 where
    /// it is left out, in a session 60.
    priority: Option<u8>,
    /// Seconds that they have it, and a session lives without requests.
    ttl: Option<u64>,
}

/// Exactly one of these.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct StructuredOutputs {
    /// A JSON schema that the output fits.
    json: Option<Map<String, Value>>,
    /// Any JSON object.
    json_object: Option<bool>,
    /// A regular expression that matches the whole output.
    regex: Option<String>,
    /// Texts of which the output is one.
    choice: Option<Vec<String>>,
    /// A grammar in the Lark dialect of llguidance, or in llama.cpp's GBNF.
    grammar: Option<String>,
}

/// One text, or a list of texts.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Texts {
    One(String),
    Several(Vec<String>),
}
