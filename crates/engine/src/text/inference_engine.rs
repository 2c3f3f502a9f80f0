//! Generation without threads or a server: prompts in, outputs out, one step at a time.
//!
//! The shape of ColossalAI-Inference's offline engine: `generate` for whole lists, or `add_request`
//! and `step` for callers with a loop of their own.

use std::collections::BTreeMap;

use terrace_model::{LoadedModel, SpecialTokens, Tokenizer};

use crate::error::Error;
use crate::generate::cache_trace::CacheTrace;
use crate::generate::engine::Engine;
use crate::generate::engine_stats::EngineStats;
use crate::generate::request::RequestId;
use crate::setup::engine_setup::EngineSetup;
use crate::setup::inference_config::InferenceConfig;
use crate::setup::memory_report::MemoryReport;
use crate::setup::model_parts::ModelParts;
use crate::text::text_outputs::TextOutputs;
use crate::text::{GenerationConfig, Prompts, TextEvent, TextFinish, TextFront, TextRequest};
use terrace_cache::TokenId;

pub struct InferenceEngine {
    engine: Engine,
    front: TextFront,
    memory: MemoryReport,
    unfinished: BTreeMap<RequestId, Unfinished>,
}

/// The outputs to one request, complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    pub request_id: RequestId,
    pub prompt: Vec<TokenId>,
    /// One for each of the request's `n`.
    pub outputs: Vec<TextOutput>,
    /// What the caches of the outputs held at their ends, if asked.
    pub cache_traces: Vec<CacheTrace>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextOutput {
    /// The new text alone.
    pub text: String,
    /// The new tokens alone.
    pub token_ids: Vec<TokenId>,
    pub finish: Option<TextFinish>,
}

impl TextOutput {
    /// Adds the next piece.
    pub(crate) fn extend(&mut self, event: TextEvent) {
        self.text += &event.text;
        self.token_ids.extend(event.tokens.iter().map(|token| token.id));
        self.finish = event.finish;
    }
}

struct Unfinished {
    prompt: Vec<TokenId>,
    parts: TextOutputs,
    outputs: Vec<TextOutput>,
}

impl InferenceEngine {
    /// Takes all memory the engine will ever use.
    pub fn new(model: LoadedModel, config: &InferenceConfig) -> Result<Self, Error> {
        let (front, setup) = ModelParts::from(model).set_up(config, || {})?;
        let EngineSetup { engine, memory, .. } = setup;
        Ok(InferenceEngine { engine, front, memory, unfinished: BTreeMap::new() })
    }

    /// As `new`, with the caller's tokenizer in place of the model's own.
    pub fn with_tokenizer(
        model: LoadedModel,
        tokenizer: Tokenizer,
        config: &InferenceConfig,
    ) -> Result<Self, Error> {
        Self::new(model.with_tokenizer(tokenizer)?, config)
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        self.front.tokenizer()
    }

    pub fn memory(&self) -> &MemoryReport {
        &self.memory
    }

    /// Copies pages that may be asked for again to the levels of `kv_tiers`, so that the next
    /// engine finds them. No request is unfinished.
    pub fn flush(&mut self) {
        assert_eq!(self.unfinished(), 0, "requests are finished first");
        self.engine.flush();
    }

    pub fn stats(&self) -> EngineStats {
        self.engine.stats()
    }

    /// Outputs the prompts, and whatever `add_request` had queued before, in the order of their
    /// ids. Options left out of `generation` come from the presets; they last for this call only.
    pub fn generate(
        &mut self,
        prompts: impl Into<Prompts>,
        generation: &GenerationConfig,
    ) -> Result<Vec<Generated>, Error> {
        self.add_request(prompts, generation)?;
        let mut finished = Vec::new();
        while !self.engine.is_idle() {
            finished.extend(self.step());
        }
        finished.sort_by_key(|generated| generated.request_id);
        Ok(finished)
    }

    /// Queues one prompt or several, each a request with an id of its own; all of them or, where
    /// one is refused, none.
    pub fn add_request(
        &mut self,
        prompts: impl Into<Prompts>,
        generation: &GenerationConfig,
    ) -> Result<Vec<RequestId>, Error> {
        let Prompts(prompts) = prompts.into();
        let mut added = Vec::new();
        for prompt in prompts {
            match self.add(TextRequest::new(prompt, generation.clone())) {
                Ok(id) => added.push(id),
                Err(error) => {
                    added.into_iter().for_each(|id| self.cancel(id));
                    return Err(error);
                }
            }
        }
        Ok(added)
    }

    /// Queues a request with everything it may carry, such as the caller's own
    /// processors or sampling strategy.
    pub fn add(&mut self, request: TextRequest) -> Result<RequestId, Error> {
        if request.past.is_some() {
            return Err(Error::BadOption {
                option: "past",
                value: "given".into(),
                rule: "handles are those of a LanguageModel; submit it there".into(),
            });
        }
        let prepared = self.front.prepare(request, None)?;
        let parts = TextOutputs::new(&prepared, self.front.tokenizer());
        let request = prepared.request;
        let outputs = vec![TextOutput::default(); request.choices()];
        let prompt = request.prompt.clone();
        let id = self.engine.submit(request)?;
        self.unfinished.insert(id, Unfinished { prompt, parts, outputs });
        Ok(id)
    }

    /// One iteration: schedules, computes, samples. Returns the requests that it completed.
    pub fn step(&mut self) -> Vec<Generated> {
        let mut finished = Vec::new();
        for (id, event) in self.engine.step() {
            let Some(request) = self.unfinished.get_mut(&id) else { continue };
            let taken = request.parts.take(event);
            if let Some(choice) = taken.ended {
                self.engine.cancel_choice(id, choice);
            }
            if let Some(event) = taken.event {
                request.outputs[event.choice].extend(event);
            }
            if request.parts.is_finished() {
                let done = self.unfinished.remove(&id).expect("found above");
                let Unfinished { prompt, outputs, parts } = done;
                let cache_traces = parts.cache_traces().to_vec();
                finished.push(Generated { request_id: id, prompt, outputs, cache_traces });
            }
        }
        finished
    }

    /// Ends a request and frees its pages.
    pub fn cancel(&mut self, id: RequestId) {
        self.engine.cancel(id);
        self.unfinished.remove(&id);
    }

    /// Requests that are queued or being answered.
    pub fn unfinished(&self) -> usize {
        self.unfinished.len()
    }

    /// Prompt and output as one text, special tokens left out.
    pub fn full_text(&self, generated: &Generated, choice: usize) -> Result<String, Error> {
        let prompt = self.tokenizer().decode(&generated.prompt, SpecialTokens::Skip)?;
        Ok(prompt + &generated.outputs[choice].text)
    }
}
