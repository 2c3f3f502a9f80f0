//! An engine over a golden model, with policies of the program's own among the built-in ones, and
//! what comes of requests with caches of bounded length.

use std::sync::Arc;

use terrace_cache::policy::{Policies, ReplayLog, SlotShape};
use terrace_device::DType;
use terrace_engine::{
    CacheMaker, CacheMakerConfig, Engine, EngineStats, ExecutorShape, Lengths, Priority, Request,
    RequestId, RequestRetention, RequestedKvCache, SamplingParams, SeqCache, Task, TokenEvent,
    TokenId,
};
use terrace_model::golden::GoldenModel;
use terrace_testkit::Rng;

use crate::golden_engine::{CpuShape, cpu_engine, dense_groups};
use crate::own_policies::{FADING, REPEATING};

const MAX_SEQS: usize = 6;
pub const CONTEXT: usize = 256;

/// How an engine is set up for one run.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub page_tokens: usize,
    pub max_step_tokens: usize,
    pub pages: usize,
    pub store_pages: usize,
    pub threads: usize,
}

pub const PLAIN: Setting =
    Setting { page_tokens: 16, max_step_tokens: 64, pages: 400, store_pages: 400, threads: 2 };

pub struct Fixture {
    engine: Engine,
    caches: CacheMaker,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub ids: Vec<TokenId>,
    pub prompt_logprobs: Vec<f32>,
    /// What the policy decided.
    pub replay: Option<Box<ReplayLog>>,
}

impl Fixture {
    pub fn new(setting: Setting) -> Self {
        let (_, folder) = terrace_testkit::golden_cases("llm")
            .into_iter()
            .find(|(name, _)| name == "llama3_gqa_ropescale")
            .expect("a golden model");
        let case = GoldenModel::open(&folder, &folder.join("config.json")).expect("it opens");
        let (spec, tensors) = (case.spec.clone(), case.tensors);
        let groups = dense_groups(&spec, setting.page_tokens);
        let layout = spec.kv_groups(setting.page_tokens, DType::F32)[0].layout;
        // The notes of one slot may be more than a page of one token leaves room for.
        let page_bytes = layout.page_bytes() + 16 * 4 * spec.layers.len();
        let Setting { max_step_tokens, pages, store_pages, .. } = setting;
        let shape = SlotShape {
            kv_heads: layout.kv_heads,
            key_dim: layout.key_dim,
            value_dim: layout.value_dim,
            plain: DType::F32,
        };
        let caches = CacheMakerConfig {
            layers: vec![shape; spec.layers.len()],
            page_bytes,
            requested: RequestedKvCache::default(),
            context_tokens: CONTEXT,
            chunk_tokens_max: max_step_tokens - MAX_SEQS,
            scored_slots_max: CONTEXT,
            runs_own_scores: true,
        };
        let shape = ExecutorShape { max_step_tokens, max_seqs: MAX_SEQS, pages, page_bytes };
        let shape = CpuShape { executor: shape, store_pages };
        let policies = Policies::built_in().with(FADING).with(REPEATING);
        Fixture {
            engine: cpu_engine(spec, tensors, groups, shape, setting.threads, CONTEXT),
            caches: CacheMaker::new(caches, policies).expect("a sound cache"),
        }
    }

    pub fn cache(&self, requested: &RequestedKvCache, prompt: &[TokenId]) -> Option<Arc<SeqCache>> {
        self.caches.make(requested, prompt, None, 7).expect("a sound cache")
    }

    /// Runs requests side by side, each with its own cache. A prompt whose log-probabilities are
    /// asked shares nothing.
    pub fn run(&mut self, requests: &[(RequestedKvCache, Vec<TokenId>)]) -> Vec<Outcome> {
        self.run_with(requests, Some(0))
    }

    pub fn run_with(
        &mut self,
        requests: &[(RequestedKvCache, Vec<TokenId>)],
        prompt_logprobs: Option<usize>,
    ) -> Vec<Outcome> {
        let cached = |(requested, prompt): &(RequestedKvCache, Vec<TokenId>)| {
            (self.cache(requested, prompt), prompt.clone())
        };
        self.run_cached(requests.iter().map(cached).collect(), prompt_logprobs)
    }

    /// Runs a request, lets what it left be kept or released, and then goes on from it; the second.
    pub fn run_continued(
        &mut self,
        requested: &RequestedKvCache,
        prompts: [Vec<TokenId>; 2],
        released: bool,
    ) -> Outcome {
        let [first, second] = prompts;
        let cache = self.cache(requested, &first);
        let sampling = || Task::Generate(SamplingParams::greedy(NEW_TOKENS));
        let request = |prompt, cache| Request {
            prompt,
            task: sampling(),
            priority: Priority(0),
            cache_salt: String::new(),
            retention: RequestRetention::default(),
            cache,
        };
        let id = self.engine.submit(request(first, cache)).expect("it fits");
        let handle = self.engine.keep(id).expect("it is live");
        while !self.engine.is_idle() {
            self.engine.step();
        }
        self.engine.continue_from(handle, request(second, None)).expect("it is kept");
        if released {
            self.engine.release(handle);
        }
        let mut outcome = Outcome { ids: Vec::new(), prompt_logprobs: Vec::new(), replay: None };
        while !self.engine.is_idle() {
            self.engine.step().into_iter().for_each(|(_, event)| outcome.take(event));
            self.engine.check();
        }
        if !released {
            self.engine.release(handle);
        }
        outcome
    }

    /// As `run_with`, with caches that are made already.
    pub fn run_cached(
        &mut self,
        requests: Vec<(Option<Arc<SeqCache>>, Vec<TokenId>)>,
        prompt_logprobs: Option<usize>,
    ) -> Vec<Outcome> {
        let mut ids: Vec<RequestId> = Vec::new();
        for (cache, prompt) in requests {
            let request = Request {
                prompt,
                task: Task::Generate(SamplingParams {
                    prompt_logprobs,
                    ..SamplingParams::greedy(NEW_TOKENS)
                }),
                priority: Priority(0),
                cache_salt: String::new(),
                retention: RequestRetention::default(),
                cache,
            };
            ids.push(self.engine.submit(request).expect("it fits"));
        }
        let nothing = Outcome { ids: Vec::new(), prompt_logprobs: Vec::new(), replay: None };
        let mut outcomes = vec![nothing; ids.len()];
        while !self.engine.is_idle() {
            for (id, event) in self.engine.step() {
                let index = ids.iter().position(|known| *known == id).expect("its own event");
                outcomes[index].take(event);
            }
            self.engine.check();
        }
        let stats = self.engine.stats();
        assert_eq!(stats.pages_free, stats.pages_total, "pages are held");
        outcomes
    }

    pub fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}

impl Outcome {
    fn take(&mut self, event: TokenEvent) {
        match event {
            TokenEvent::Token { id, .. } => self.ids.push(id),
            TokenEvent::Prompt(logprobs) => {
                let known = logprobs.into_iter().flatten();
                self.prompt_logprobs = known.map(|token| token.logprob).collect();
            }
            TokenEvent::Replay { log, .. } => self.replay = Some(log),
            TokenEvent::CachedPrompt { .. }
            | TokenEvent::Embedding(_)
            | TokenEvent::Cache(_)
            | TokenEvent::Finished { .. } => {}
        }
    }
}

pub const NEW_TOKENS: usize = 12;

pub fn requested(name: &str, cache_length: usize, chunk_size: usize) -> RequestedKvCache {
    RequestedKvCache {
        name: Some(name.into()),
        cache_length: Some(Lengths::One(cache_length)),
        chunk_size: Some(chunk_size),
        replay_log: Some(true),
        ..RequestedKvCache::default()
    }
}

pub fn prompt(rng: &mut Rng, tokens: usize) -> Vec<TokenId> {
    (0..tokens).map(|_| rng.below(320) as TokenId).collect()
}

/// Every request in an engine of its own.
pub fn alone(requests: &[(RequestedKvCache, Vec<TokenId>)]) -> Vec<Outcome> {
    let one = |request: &(RequestedKvCache, Vec<TokenId>)| {
        Fixture::new(PLAIN).run(std::slice::from_ref(request)).remove(0)
    };
    requests.iter().map(one).collect()
}

pub fn assert_same(
    found: &[Outcome],
    wanted: &[Outcome],
    requests: &[(RequestedKvCache, Vec<TokenId>)],
    place: &str,
) {
    for ((found, wanted), (requested, prompt)) in found.iter().zip(wanted).zip(requests) {
        assert_eq!(found, wanted, "{place}: {requested:?}, {} tokens", prompt.len());
    }
}
