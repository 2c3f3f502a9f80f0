//! From what users may say to what the sampler does: every option decided, every value checked.

use std::fmt::Display;

use crate::error::Error;
use crate::generate::sampling_params::SamplingParams;
use crate::text::GenerationConfig;
use crate::text::stop_strings::check_stops;
use terrace_cache::TokenId;

/// Most log-probabilities that are reported with a token.
pub const MAX_LOGPROBS: usize = 20;

/// Most texts that must not occur: each is looked for before every token.
pub const MAX_BAD_WORDS: usize = 1024;
/// Bytes of the longest of them.
pub const MAX_BAD_WORD_BYTES: usize = 1024;

/// What the prompt, the model and the server allow.
#[derive(Clone, Copy, Debug)]
pub struct ResolveLimits<'a> {
    pub prompt_tokens: usize,
    /// New tokens when no length is named; shortened to what fits. A length that a model's files
    /// propose belongs here, not among the presets, where it would count as the user's demand.
    pub default_new_tokens: usize,
    pub max_new_tokens_limit: usize,
    /// Prompt and output together.
    pub context_tokens: usize,
    /// The model's end-of-sequence ids.
    pub eos: &'a [TokenId],
    pub vocab: usize,
    /// The seed of a request that names none.
    pub random_seed: u64,
    pub max_choices: usize,
}

impl GenerationConfig {
    /// Decides every option; what nobody named is off.
    ///
    /// A token is drawn if `do_sample` is true and the temperature is not 0; otherwise the most
    /// probable one is taken. With the OpenAI defaults underneath that means: unless temperature
    /// 0 is asked for. With ColossalAI's defaults: only if `do_sample` is asked for.
    ///
    /// `max_new_tokens` must be possible as it stands; `max_length` is an upper bound, and the
    /// output is shortened where the server or the model allows less. Stop strings are checked
    /// here, and looked for by `TextAssembler`. The user's own processors
    /// and strategy, the grammar and the tokens of `bad_words` are added by the caller.
    pub fn resolve(&self, limits: ResolveLimits<'_>) -> Result<SamplingParams, Error> {
        self.check_distribution()?;
        self.check_tokens(limits.vocab)?;
        self.check_reports(limits.max_choices)?;
        self.check_bad_words()?;
        let max_new_tokens = self.new_tokens(limits)?;
        let min_new_tokens = self.min_new_tokens.unwrap_or(0);
        require(min_new_tokens <= max_new_tokens, "min_new_tokens", min_new_tokens, || {
            format!("it must be at most the {max_new_tokens} new tokens that are allowed")
        })?;
        let temperature = self.temperature.unwrap_or(1.0);
        Ok(SamplingParams {
            do_sample: self.do_sample.unwrap_or(false) && temperature > 0.0,
            temperature,
            top_k: self.top_k.unwrap_or(0),
            top_p: self.top_p.unwrap_or(1.0),
            min_p: self.min_p.unwrap_or(0.0),
            typical_p: self.typical_p.unwrap_or(1.0),
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            presence_penalty: self.presence_penalty.unwrap_or(0.0),
            frequency_penalty: self.frequency_penalty.unwrap_or(0.0),
            no_repeat_ngram_size: self.no_repeat_ngram_size.unwrap_or(0),
            bad_words: Vec::new(),
            forced_eos: self.forced_eos_token_id,
            logit_bias: self.logit_bias.clone().unwrap_or_default(),
            seed: self.seed.unwrap_or(limits.random_seed),
            choices: self.n.unwrap_or(1),
            max_new_tokens,
            min_new_tokens,
            stop_ids: self.stop_ids(limits.eos),
            logprobs: self.logprobs,
            prompt_logprobs: self.prompt_logprobs,
            cache_trace: false,
            processors: Vec::new(),
            strategy: None,
            guide: None,
        })
    }

    /// Whether each number that shapes the distribution is one that the sampler can use.
    pub fn check_distribution(&self) -> Result<(), Error> {
        let check = |option, value: Option<f32>, allowed: fn(f32) -> bool, rule: &str| match value {
            Some(value) => require(allowed(value), option, value, || rule.into()),
            None => Ok(()),
        };
        check(
            "temperature",
            self.temperature,
            |t| t >= 0.0 && t.is_finite(),
            "it must be a finite number, at least 0; 0 takes the most probable token",
        )?;
        check(
            "top_p",
            self.top_p,
            |p| 0.0 < p && p <= 1.0,
            "it must be above 0 and at most 1; 1 keeps all tokens",
        )?;
        check(
            "min_p",
            self.min_p,
            |p| (0.0..1.0).contains(&p),
            "it must be at least 0 and below 1; 0 keeps all tokens",
        )?;
        check(
            "typical_p",
            self.typical_p,
            |p| 0.0 < p && p <= 1.0,
            "it must be above 0 and at most 1; 1 keeps all tokens",
        )?;
        check(
            "repetition_penalty",
            self.repetition_penalty,
            |penalty| 0.0 < penalty && penalty.is_finite(),
            "it must be a finite number above 0; 1 changes nothing",
        )?;
        let penalty_rule = "it must be from -2 to 2; 0 changes nothing";
        let within_2: fn(f32) -> bool = |penalty| (-2.0..=2.0).contains(&penalty);
        check("presence_penalty", self.presence_penalty, within_2, penalty_rule)?;
        check("frequency_penalty", self.frequency_penalty, within_2, penalty_rule)
    }

    fn check_tokens(&self, vocab: usize) -> Result<(), Error> {
        let check_id = |option, id: TokenId| {
            require((id as usize) < vocab, option, id, || {
                format!("it must be a token id below the vocabulary of {vocab}")
            })
        };
        for &(id, bias) in self.logit_bias.iter().flatten() {
            check_id("logit_bias", id)?;
            require(bias.abs() <= 100.0, "logit_bias", format!("{bias} for token {id}"), || {
                "it must be from -100 to 100".into()
            })?;
        }
        for &id in self.stop_token_ids.iter().flatten() {
            check_id("stop_token_ids", id)?;
        }
        self.forced_eos_token_id.map_or(Ok(()), |id| check_id("forced_eos_token_id", id))
    }

    fn check_reports(&self, max_choices: usize) -> Result<(), Error> {
        let n = self.n.unwrap_or(1);
        require((1..=max_choices).contains(&n), "n", n, || {
            format!("it must be at least 1 and at most {max_choices}")
        })?;
        for (option, top) in
            [("logprobs", self.logprobs), ("prompt_logprobs", self.prompt_logprobs)]
        {
            let top = top.unwrap_or(0);
            require(top <= MAX_LOGPROBS, option, top, || {
                format!("it must be at most {MAX_LOGPROBS}")
            })?;
        }
        check_stops(self.stop.as_deref().unwrap_or_default())
    }

    fn check_bad_words(&self) -> Result<(), Error> {
        let words = self.bad_words.as_deref().unwrap_or_default();
        let option = "bad_words";
        require(words.len() <= MAX_BAD_WORDS, option, format!("{} texts", words.len()), || {
            format!("it must be at most {MAX_BAD_WORDS} texts")
        })?;
        let longest = words.iter().map(String::len).max().unwrap_or(0);
        let value = format!("a text of {longest} bytes");
        require(longest <= MAX_BAD_WORD_BYTES, option, value, || {
            format!("a text must have at most {MAX_BAD_WORD_BYTES} bytes")
        })?;
        require(words.iter().all(|word| !word.is_empty()), option, "an empty text", || {
            "it occurs everywhere; leave it out".into()
        })
    }

    fn new_tokens(&self, limits: ResolveLimits<'_>) -> Result<usize, Error> {
        let ResolveLimits { prompt_tokens: prompt, context_tokens, .. } = limits;
        let limit = limits.max_new_tokens_limit;
        let room = context_tokens.saturating_sub(prompt);
        let too_long = |new: usize| {
            let tokens = prompt.saturating_add(new);
            Err(Error::ContextTooLong { tokens, prompt, new, limit: context_tokens })
        };
        if room == 0 {
            return too_long(1);
        }
        match (self.max_new_tokens, self.max_length) {
            (Some(new), Some(length)) => Err(Error::BadOption {
                option: "max_new_tokens",
                value: new.to_string(),
                rule: format!("max_length is given too, as {length}; give one of the two"),
            }),
            (Some(new), None) => {
                require((1..=limit).contains(&new), "max_new_tokens", new, || {
                    format!("it must be at least 1 and at most {limit} (max_output_len)")
                })?;
                if new > room { too_long(new) } else { Ok(new) }
            }
            (None, Some(length)) => {
                require(length > prompt, "max_length", length, || {
                    format!("it counts the prompt, which has {prompt} tokens already")
                })?;
                Ok((length - prompt).min(limit).min(room))
            }
            (None, None) => Ok(limits.default_new_tokens.min(limit).min(room)),
        }
    }
}

fn require(
    allowed: bool,
    option: &'static str,
    value: impl Display,
    rule: impl FnOnce() -> String,
) -> Result<(), Error> {
    if allowed {
        return Ok(());
    }
    Err(Error::BadOption { option, value: value.to_string(), rule: rule() })
}

#[cfg(test)]
mod tests;
