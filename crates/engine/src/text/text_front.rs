//! Between text and the engine's ids: tokenises prompts and settles every option of a request.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use terrace_cache::policy::TokenText;
use terrace_model::{
    AddSpecial, ChatTemplate, Error as ModelError, ModelText, SpecialTokens, Tokenizer,
};

use crate::error::Error;
use crate::generate::past::Past;
use crate::generate::request::{Priority, Request, Task};
use crate::generate::request_retention::RequestRetention;
use crate::guidance::{Grammar, GrammarCheck, Guide, GuideMaker};
use crate::setup::inference_config::InferenceConfig;
use crate::setup::kv_cache::CacheMaker;
use crate::text::{GenerationConfig, Prompt, PromptTemplate, ResolveLimits, TextRequest};
use terrace_cache::TokenId;

pub struct TextFront {
    name: String,
    tokenizer: Arc<Tokenizer>,
    chat_template: Option<ChatTemplate>,
    prompt_template: Option<PromptTemplate>,
    /// What a request gets where it does not say: the configuration's presets, then the model's.
    presets: GenerationConfig,
    eos: Vec<TokenId>,
    /// Made when the first output must follow a grammar.
    guide_maker: OnceLock<GuideMaker>,
    grammar_check: Option<GrammarCheck>,
    limits: TextLimits,
    caches: Arc<CacheMaker>,
    verbose: bool,
    /// Makes the seeds of requests that name none.
    seeds: RandomState,
    seeds_drawn: AtomicU64,
}

#[derive(Clone, Copy)]
struct TextLimits {
    max_input_len: usize,
    max_output_len: usize,
    /// Of a request that does not say.
    default_new_tokens: usize,
    context_tokens: usize,
    max_choices: usize,
    vocab: usize,
}

impl TextLimits {
    /// Most tokens of a prompt's text.
    fn prompt_tokens(self) -> usize {
        self.max_input_len.min(self.context_tokens)
    }
}

/// A request the engine understands, and what must be watched for outside it.
pub struct PreparedRequest {
    pub request: Request,
    /// Texts that end an output.
    pub stops: Vec<String>,
    /// Whether the one that ends an output is part of its text.
    pub include_stop_text: bool,
    /// Whether the output's special tokens are shown.
    pub special: SpecialTokens,
    /// Whether the end of each choice is logged.
    pub verbose: bool,
}

impl TextFront {
    pub(crate) fn new(
        name: &str,
        text: ModelText,
        vocab: usize,
        context_tokens: usize,
        caches: Arc<CacheMaker>,
        config: &InferenceConfig,
    ) -> Result<Self, Error> {
        let ModelText { tokenizer, chat_template, eos, generation_config } = text;
        let mut model_presets = match &generation_config {
            Some(json) => GenerationConfig::from_hf_json(json)?,
            None => GenerationConfig::default(),
        };
        // A model's own length is what it gets by default, not what a request must fit into.
        let default_new_tokens = model_presets.max_new_tokens.take().unwrap_or(usize::MAX);
        Ok(TextFront {
            name: name.into(),
            tokenizer: Arc::new(tokenizer),
            chat_template,
            prompt_template: config.prompt_template()?,
            presets: config.generation_presets().or(&model_presets),
            eos,
            guide_maker: OnceLock::new(),
            grammar_check: config.grammar_check.clone(),
            limits: TextLimits {
                max_input_len: config.max_input_len,
                max_output_len: config.max_output_len,
                default_new_tokens: default_new_tokens.min(config.max_output_len),
                context_tokens,
                max_choices: config.max_batch_size,
                vocab,
            },
            caches,
            verbose: config.verbose,
            seeds: RandomState::new(),
            seeds_drawn: AtomicU64::new(0),
        })
    }

    /// The model's file or folder name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub(crate) fn shared_tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.chat_template.as_ref()
    }

    /// Most tokens a prompt and its output may have together.
    pub fn context_tokens(&self) -> usize {
        self.limits.context_tokens
    }

    /// Most tokens of a prompt's text.
    pub(crate) fn prompt_tokens(&self) -> usize {
        self.limits.prompt_tokens()
    }

    /// Tokenises the prompt and settles every option. It follows `past`, if there is one.
    pub fn prepare(
        &self,
        request: TextRequest,
        past: Option<&Past>,
    ) -> Result<PreparedRequest, Error> {
        if past.is_some() && !request.kv_cache.is_empty() {
            return Err(Error::BadOption {
                option: "kv_cache",
                value: "given".into(),
                rule: "a request that goes on from a handle has the handle's cache".into(),
            });
        }
        let prompt = self.new_tokens(request.prompt, request.truncate_prompt_tokens, past)?;
        let prompt_tokens = past.map_or(0, |past| past.tokens.len()) + prompt.len();
        if request.strategy.is_some() {
            check_left_to_strategy(&request.generation)?;
        }
        let limits = self.limits;
        let requested = request.generation.or(&self.presets).or(&request.defaults);
        let slots = self.caches.max_tokens(&request.kv_cache)?.unwrap_or(usize::MAX);
        let resolved = requested.resolve(ResolveLimits {
            prompt_tokens,
            default_new_tokens: request.default_new_tokens.unwrap_or(limits.default_new_tokens),
            max_new_tokens_limit: limits.max_output_len,
            context_tokens: limits.context_tokens.min(slots),
            eos: &self.eos,
            vocab: limits.vocab,
            random_seed: self.random_seed(),
            max_choices: limits.max_choices,
        });
        let mut sampling = resolved.map_err(|error| match error {
            Error::ContextTooLong { tokens, prompt, new, .. } if slots < limits.context_tokens => {
                Error::CacheTooShort { tokens, prompt, new, slots }
            }
            other => other,
        })?;
        sampling.bad_words = self.bad_words(requested.bad_words.as_deref().unwrap_or_default())?;
        sampling.processors = request.processors;
        sampling.strategy = request.strategy;
        sampling.cache_trace = request.cache_trace;
        if let Some(grammar) = request.grammar {
            check_end(&requested)?;
            sampling.guide = Some(match request.guide {
                Some(guide) => guide,
                None => Arc::new(self.guide_maker()?.guide(&grammar)?),
            });
        }
        let TextRequest { priority, cache_salt, special, kv_cache, retention, .. } = request;
        let include_stop_text = request.include_stop_text;
        let text = PromptText(&self.tokenizer);
        let cache = match past {
            Some(_) => None,
            None => self.caches.make(&kv_cache, &prompt, Some(&text), sampling.seed)?,
        };
        if self.verbose {
            tracing::info!(prompt_tokens, ?sampling, "a request");
        }
        let task = Task::Generate(sampling);
        let request = Request { prompt, task, priority, cache_salt, cache, retention };
        let request = match past {
            Some(past) => past.extend(request)?,
            None => request,
        };
        let stops = requested.stop.unwrap_or_default();
        let verbose = self.verbose;
        Ok(PreparedRequest { request, stops, include_stop_text, special, verbose })
    }

    /// Tokenises a prompt of which nothing but the embedding is wanted. The frame around plain
    /// prompts asks for an output, so it is not put on here.
    pub fn prepare_embedding(&self, prompt: Prompt) -> Result<Request, Error> {
        let prompt = match prompt {
            Prompt::Text(text) => {
                self.encode(&text, AddSpecial::Yes, self.limits.prompt_tokens())?
            }
            other => self.tokenise(other, self.limits.prompt_tokens())?,
        };
        Ok(Request {
            prompt,
            task: Task::Embed,
            priority: Priority::default(),
            cache_salt: String::new(),
            cache: None,
            retention: RequestRetention::default(),
        })
    }

    /// Refuses a prompt that is too long by its length alone, before anything is made of it.
    pub fn check_length(&self, prompt: &Prompt) -> Result<(), Error> {
        match prompt {
            Prompt::Text(text) | Prompt::Rendered(text) => {
                let (least, limit) =
                    (self.tokenizer.least_tokens(text), self.limits.prompt_tokens());
                match limit < least {
                    true => Err(Error::PromptTextTooLong { least, limit }),
                    false => Ok(()),
                }
            }
            Prompt::Tokens(ids) => self.check_tokens(ids.len()),
        }
    }

    /// The ids of a prompt, or its last ones; behind a past no text begins.
    fn new_tokens(
        &self,
        prompt: Prompt,
        last: Option<usize>,
        past: Option<&Past>,
    ) -> Result<Vec<TokenId>, Error> {
        let prompt = match (past, prompt) {
            (Some(_), Prompt::Text(text)) => Prompt::Rendered(text),
            (_, prompt) => prompt,
        };
        match last {
            Some(tokens) => self.last_tokens(prompt, tokens),
            None => self.tokenise(prompt, self.limits.prompt_tokens()),
        }
    }

    /// The prompt's last tokens, of which there may be more than a prompt may have.
    fn last_tokens(&self, prompt: Prompt, tokens: usize) -> Result<Vec<TokenId>, Error> {
        let mut prompt = self.tokenise(prompt, usize::MAX)?;
        truncate(&mut prompt, tokens)?;
        self.check_tokens(prompt.len())?;
        Ok(prompt)
    }

    fn check_tokens(&self, tokens: usize) -> Result<(), Error> {
        let limit = self.limits.max_input_len;
        if tokens <= limit { Ok(()) } else { Err(Error::PromptTooLong { tokens, limit }) }
    }

    /// The ids of a prompt, unless they are more than `limit`.
    pub(crate) fn tokenise(&self, prompt: Prompt, limit: usize) -> Result<Vec<TokenId>, Error> {
        match prompt {
            Prompt::Tokens(ids) if limit < ids.len() => {
                self.check_tokens(ids.len())?;
                Ok(ids)
            }
            Prompt::Tokens(ids) => Ok(ids),
            Prompt::Rendered(text) => self.encode(&text, AddSpecial::No, limit),
            Prompt::Text(text) => {
                let text = match &self.prompt_template {
                    Some(template) => template.apply(&text),
                    None => text,
                };
                self.encode(&text, AddSpecial::Yes, limit)
            }
        }
    }

    /// The ids of a text, unless they are more than `limit`.
    fn encode(&self, text: &str, special: AddSpecial, limit: usize) -> Result<Vec<TokenId>, Error> {
        self.tokenizer.encode_within(text, special, limit).map_err(|error| match error {
            ModelError::TooManyTokens { least, limit } => Error::PromptTextTooLong { least, limit },
            other => other.into(),
        })
    }

    /// The tokens of each word, at the start of a text and after a space.
    fn bad_words(&self, words: &[String]) -> Result<Vec<Vec<TokenId>>, Error> {
        let mut sequences = Vec::new();
        for word in words {
            let alone = self.tokenizer.encode(word, AddSpecial::No)?;
            let spaced = self.tokenizer.encode(&format!(" {word}"), AddSpecial::No)?;
            if alone.is_empty() || spaced.is_empty() {
                return Err(Error::BadOption {
                    option: "bad_words",
                    value: format!("{word:?}"),
                    rule: "the model's tokenizer makes no tokens of it; leave it out".into(),
                });
            }
            sequences.extend([alone, spaced]);
        }
        Ok(sequences)
    }

    pub fn prepare_guides(&self) -> Result<(), Error> {
        self.guide_maker().map(|_| ())
    }

    /// Compiles a grammar without blocking; see [`GuideMaker::checked_guide`].
    pub async fn guide(&self, grammar: &Grammar) -> Result<Guide, Error> {
        self.guide_maker()?.checked_guide(grammar).await
    }

    fn guide_maker(&self) -> Result<&GuideMaker, Error> {
        if let Some(maker) = self.guide_maker.get() {
            return Ok(maker);
        }
        let check = self.grammar_check.as_ref();
        let maker = GuideMaker::new(&self.tokenizer, &self.eos, self.limits.vocab, check)?;
        // Another thread may have been faster; theirs is as good.
        Ok(self.guide_maker.get_or_init(|| maker))
    }

    fn random_seed(&self) -> u64 {
        // A `RandomState` is keyed from the operating system; the count makes each seed new.
        let drawn = self.seeds_drawn.fetch_add(1, Ordering::Relaxed);
        self.seeds.hash_one(drawn)
    }
}

/// Drops all but the last `tokens` of a prompt.
fn truncate(prompt: &mut Vec<TokenId>, tokens: usize) -> Result<(), Error> {
    if tokens == 0 {
        return Err(Error::BadOption {
            option: "truncate_prompt_tokens",
            value: tokens.to_string(),
            rule: "it must be at least 1, or left out".into(),
        });
    }
    prompt.drain(..prompt.len().saturating_sub(tokens));
    Ok(())
}

/// Prompts as text, for policies that look into them.
pub(crate) struct PromptText<'a>(pub(crate) &'a Tokenizer);

impl TokenText for PromptText<'_> {
    fn decode(&self, tokens: &[TokenId]) -> String {
        // A prompt of unknown ids has no text, and is refused when it comes to the engine.
        self.0.decode(tokens, SpecialTokens::Skip).unwrap_or_default()
    }

    fn encode(&self, text: &str) -> Vec<TokenId> {
        self.0.encode(text, AddSpecial::No).unwrap_or_default()
    }
}

/// What a strategy samples by is its own matter.
fn check_left_to_strategy(requested: &GenerationConfig) -> Result<(), Error> {
    let given = [
        ("do_sample", requested.do_sample.map(|flag| flag.to_string())),
        ("temperature", requested.temperature.map(|number| number.to_string())),
        ("top_k", requested.top_k.map(|count| count.to_string())),
        ("top_p", requested.top_p.map(|number| number.to_string())),
        ("min_p", requested.min_p.map(|number| number.to_string())),
        ("typical_p", requested.typical_p.map(|number| number.to_string())),
    ];
    match given.into_iter().find_map(|(option, value)| Some((option, value?))) {
        None => Ok(()),
        Some((option, value)) => {
            let rule =
                "the request brings a sampling strategy, which does not read it; leave it out";
            Err(Error::BadOption { option, value, rule: rule.into() })
        }
    }
}

/// An output that follows a grammar ends where the grammar does, with an end-of-sequence id.
fn check_end(requested: &GenerationConfig) -> Result<(), Error> {
    match requested.ignore_eos {
        Some(true) => Err(Error::BadOption {
            option: "ignore_eos",
            value: "true".into(),
            rule: "an answer that follows a grammar ends where the grammar ends".into(),
        }),
        _ => Ok(()),
    }
}
