//! Between text and the engine's ids: tokenises prompts and settles every option of a request.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use terrace_cache::policy::TokenText;
use terrace_model::{AddSpecial, ChatTemplate, ModelText, SpecialTokens, Tokenizer};

use crate::error::Error;
use crate::guidance::{Grammar, GrammarCheck, Guide, GuideMaker};
use crate::inference_config::InferenceConfig;
use crate::kv_cache::CacheMaker;
use crate::request::{Priority, Request, TokenId};
use crate::sampling_params::SamplingParams;
use crate::text::{GenerationConfig, Prompt, PromptTemplate, ResolveLimits, TextRequest};

pub struct TextFront {
    name: String,
    tokenizer: Arc<Tokenizer>,
    chat_template: Option<ChatTemplate>,
    prompt_template: Option<PromptTemplate>,
    /// What a request gets where it does not say: the configuration's presets, then the model's.
    presets: GenerationConfig,
    eos: Vec<TokenId>,
    /// Made when the first answer must follow a grammar.
    guide_maker: OnceLock<GuideMaker>,
    grammar_check: Option<GrammarCheck>,
    limits: TextLimits,
    caches: CacheMaker,
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

/// A request the engine understands, and what must be watched for outside it.
pub struct PreparedRequest {
    pub request: Request,
    /// Texts that end an answer.
    pub stops: Vec<String>,
    /// Whether the answer's special tokens are shown.
    pub special: SpecialTokens,
}

impl TextFront {
    pub(crate) fn new(
        name: &str,
        text: ModelText,
        vocab: usize,
        context_tokens: usize,
        caches: CacheMaker,
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

    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.chat_template.as_ref()
    }

    /// Most tokens a prompt and its answer may have together.
    pub fn context_tokens(&self) -> usize {
        self.limits.context_tokens
    }

    /// Tokenises the prompt and settles every option.
    pub fn prepare(&self, request: TextRequest) -> Result<PreparedRequest, Error> {
        let prompt = self.tokenise(request.prompt)?;
        let limits = self.limits;
        if prompt.len() > limits.max_input_len {
            let (tokens, limit) = (prompt.len(), limits.max_input_len);
            return Err(Error::PromptTooLong { tokens, limit });
        }
        let wishes = request.generation.or(&self.presets).or(&request.defaults);
        let mut sampling = wishes.resolve(ResolveLimits {
            prompt_tokens: prompt.len(),
            default_new_tokens: request.default_new_tokens.unwrap_or(limits.default_new_tokens),
            max_new_tokens_limit: limits.max_output_len,
            context_tokens: limits.context_tokens,
            eos: &self.eos,
            vocab: limits.vocab,
            random_seed: self.random_seed(),
            max_choices: limits.max_choices,
        })?;
        sampling.processors = request.processors;
        sampling.cache_trace = request.cache_trace;
        if let Some(grammar) = request.grammar {
            check_end(&wishes)?;
            sampling.guide = Some(match request.guide {
                Some(guide) => guide,
                None => Arc::new(self.guide_maker()?.guide(&grammar)?),
            });
        }
        let TextRequest { priority, cache_salt, special, kv_cache, .. } = request;
        let text = PromptText(&self.tokenizer);
        let cache = self.caches.make(&kv_cache, &prompt, Some(&text), sampling.seed)?;
        let request = Request { prompt, sampling, priority, cache_salt, cache };
        Ok(PreparedRequest { request, stops: wishes.stop.unwrap_or_default(), special })
    }

    /// Tokenises a prompt of which nothing but the embedding is wanted. The frame around plain
    /// prompts asks for an answer, so it is not put on here.
    pub fn prepare_embedding(&self, prompt: Prompt) -> Result<Request, Error> {
        let prompt = match prompt {
            Prompt::Text(text) => self.tokenizer.encode(&text, AddSpecial::Yes)?,
            other => self.tokenise(other)?,
        };
        let sampling = SamplingParams { prompt_embedding: true, ..SamplingParams::greedy(0) };
        let (priority, cache_salt) = (Priority::default(), String::new());
        Ok(Request { prompt, sampling, priority, cache_salt, cache: None })
    }

    fn tokenise(&self, prompt: Prompt) -> Result<Vec<TokenId>, Error> {
        let ids = match prompt {
            Prompt::Tokens(ids) => ids,
            Prompt::Rendered(text) => self.tokenizer.encode(&text, AddSpecial::No)?,
            Prompt::Text(text) => {
                let text = match &self.prompt_template {
                    Some(template) => template.apply(&text),
                    None => text,
                };
                self.tokenizer.encode(&text, AddSpecial::Yes)?
            }
        };
        Ok(ids)
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

/// Prompts as text, for policies that look into them.
struct PromptText<'a>(&'a Tokenizer);

impl TokenText for PromptText<'_> {
    fn decode(&self, tokens: &[TokenId]) -> String {
        // A prompt of unknown ids has no text, and is refused when it comes to the engine.
        self.0.decode(tokens, SpecialTokens::Skip).unwrap_or_default()
    }

    fn encode(&self, text: &str) -> Vec<TokenId> {
        self.0.encode(text, AddSpecial::No).unwrap_or_default()
    }
}

/// An answer that follows a grammar ends where the grammar does, with an end-of-sequence id.
fn check_end(wishes: &GenerationConfig) -> Result<(), Error> {
    match wishes.ignore_eos {
        Some(true) => Err(Error::BadOption {
            option: "ignore_eos",
            value: "true".into(),
            rule: "an answer that follows a grammar ends where the grammar ends".into(),
        }),
        _ => Ok(()),
    }
}
