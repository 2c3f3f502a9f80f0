//! Which keys and values are kept, and in how many bits: the options below `kv_cache`.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::{ArgAction, Args};
use terrace_engine::{InferenceConfig, KwArg, Lengths, RequestedKvCache};

use crate::options::{at_least_one, flag, whole_number};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "KV cache policy and buffer (requests may name others)")]
pub struct KvCacheOptions {
    /// A policy and a buffer, such as h2o-torch-quantized8. Policies: dense keeps all tokens;
    /// lastrec the first and the newest; streamingllm too, at positions as if nothing had been
    /// between; smart-lastrec the opening up to a pattern, and the newest; h2o, h2o-vlen, h2o-orig
    /// those that are attended to most; qh2o, qh2o-vlen also weigh what the buffer loses. Buffers:
    /// default, torch-quantized8, torch-quantized4, bnb-quantized8, bnb-quantized4, fp8; two joined
    /// by + are those of keys and of values. Left out: dense-default.
    #[arg(long = "kv-cache.name", value_name = "POLICY-BUFFER")]
    name: Option<String>,

    /// Tokens that are kept in each layer; one number, or one for each layer with commas between.
    /// A sequence never holds more: a policy evicts, and of dense a request that may need more is
    /// refused. Left out: 16384, or the model's context; of dense as many as a request needs.
    #[arg(long = "kv-cache.cache-length", value_name = "SLOTS", value_delimiter = ',',
          value_parser = at_least_one::<usize>)]
    cache_length: Vec<usize>,

    /// Tokens of a prompt that are computed, and evicted for, together once the cache is full.
    /// Left out: 1024, or what a step and the cache have room for.
    #[arg(long = "kv-cache.chunk-size", value_name = "TOKENS",
          value_parser = whole_number::<usize>)]
    chunk_size: Option<usize>,

    /// Draw each request's chunk sizes around --kv-cache.chunk-size, from its seed. Left out:
    /// false.
    #[arg(long = "kv-cache.randomize-chunk-sizes", value_name = "BOOL", value_parser = flag,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    randomize_chunk_sizes: Option<bool>,

    /// Keep the first --start-token-size tokens and the newest --generated-token-size, at positions
    /// as if nothing had been between: another way to ask for streamingllm-default.
    #[arg(long, value_name = "BOOL", default_value_t = false, hide_short_help = true,
          value_parser = flag, num_args = 0..=1, default_missing_value = "true",
          require_equals = true, action = ArgAction::Set)]
    enable_streamingllm: bool,

    /// With --enable-streamingllm: first tokens that are kept.
    #[arg(long, value_name = "TOKENS", default_value_t = 4, hide_short_help = true,
          value_parser = whole_number::<usize>)]
    start_token_size: usize,

    /// With --enable-streamingllm: newest tokens that are kept.
    #[arg(long, value_name = "TOKENS", default_value_t = 512, hide_short_help = true,
          value_parser = whole_number::<usize>)]
    generated_token_size: usize,

    /// First tokens of a sequence that never leave. Left out: a slot in eight, 1 to 16; of
    /// streamingllm 4, of h2o-orig 0.
    #[arg(long = "kv-cache.cache-kwargs.init-grace-tokens", value_name = "TOKENS",
          visible_alias = "kv-cache.init-grace-tokens", value_parser = whole_number::<usize>)]
    init_grace_tokens: Option<usize>,

    /// Newest tokens that do not leave yet, of policies with scores. Left out: a quarter of the
    /// slots.
    #[arg(long = "kv-cache.cache-kwargs.grace-period", value_name = "TOKENS",
          visible_alias = "kv-cache.grace-period", value_parser = whole_number::<usize>)]
    grace_period: Option<usize>,

    /// Divide scores by how long their tokens have been scored. Left out: true.
    #[arg(long = "kv-cache.cache-kwargs.normalize-scores", value_name = "BOOL",
          value_parser = flag, num_args = 0..=1, default_missing_value = "true",
          require_equals = true, visible_alias = "kv-cache.normalize-scores")]
    normalize_scores: Option<bool>,

    /// Share of the slots that stay when the first tokens leave a cache without scores. Left out:
    /// 0.05.
    #[arg(
        long = "kv-cache.cache-kwargs.keep-initial-fraction",
        value_name = "FRACTION",
        hide_short_help = true
    )]
    keep_initial_fraction: Option<f64>,

    /// Longest chunk of a policy with scores. Left out: none.
    #[arg(long = "kv-cache.cache-kwargs.max-chunk-size", value_name = "TOKENS",
          hide_short_help = true, value_parser = whole_number::<usize>)]
    max_chunk_size: Option<usize>,

    /// Of qh2o: share of the score, the rest being what the buffer loses. Left out: 0.5.
    #[arg(
        long = "kv-cache.cache-kwargs.combination-constant",
        value_name = "SHARE",
        hide_short_help = true
    )]
    combination_constant: Option<f64>,

    /// Of smart-lastrec, which needs it: the regular expression that ends the opening.
    #[arg(
        long = "kv-cache.cache-kwargs.end-initial-regex",
        value_name = "REGEX",
        hide_short_help = true
    )]
    end_initial_regex: Option<String>,

    /// Of smart-lastrec: whether what the expression matches belongs to the opening. Left out:
    /// true.
    #[arg(long = "kv-cache.cache-kwargs.include-end-string", value_name = "BOOL",
          value_parser = flag, hide_short_help = true)]
    include_end_string: Option<bool>,

    /// Of smart-lastrec: share of the slots that the opening may take. Left out: 0.5.
    #[arg(
        long = "kv-cache.cache-kwargs.max-initial-fraction",
        value_name = "FRACTION",
        hide_short_help = true
    )]
    max_initial_fraction: Option<f64>,
}

impl KvCacheOptions {
    pub fn set(&self, config: &mut InferenceConfig) {
        config.enable_streamingllm = self.enable_streamingllm;
        config.start_token_size = self.start_token_size;
        config.generated_token_size = self.generated_token_size;
        config.kv_cache = self.requested();
    }

    /// The cache of who names no other.
    pub fn own_cache(&self) -> Result<RequestedKvCache> {
        let mut config = InferenceConfig::default();
        self.set(&mut config);
        config.check()?;
        Ok(config.own_cache())
    }

    fn requested(&self) -> RequestedKvCache {
        let count = |count: usize| KwArg::Number(count as f64);
        let arguments = [
            ("init_grace_tokens", self.init_grace_tokens.map(count)),
            ("grace_period", self.grace_period.map(count)),
            ("normalize_scores", self.normalize_scores.map(KwArg::Flag)),
            ("keep_initial_fraction", self.keep_initial_fraction.map(KwArg::Number)),
            ("max_chunk_size", self.max_chunk_size.map(count)),
            ("combination_constant", self.combination_constant.map(KwArg::Number)),
            ("end_initial_regex", self.end_initial_regex.clone().map(KwArg::Text)),
            ("include_end_string", self.include_end_string.map(KwArg::Flag)),
            ("max_initial_fraction", self.max_initial_fraction.map(KwArg::Number)),
        ];
        let given = arguments.into_iter().filter_map(|(name, value)| Some((name.into(), value?)));
        RequestedKvCache {
            name: self.name.clone(),
            cache_length: match self.cache_length.as_slice() {
                [] => None,
                [one] => Some(Lengths::One(*one)),
                each => Some(Lengths::EachLayer(each.to_vec())),
            },
            chunk_size: self.chunk_size,
            randomize_chunk_sizes: self.randomize_chunk_sizes,
            cache_kwargs: given.collect::<BTreeMap<_, _>>(),
            ..RequestedKvCache::default()
        }
    }
}
