//! Caches that choose and compress, through the whole engine: an answer depends neither on pages,
//! steps and company nor on being preempted, and a cache that need not evict changes nothing.

use std::sync::Arc;

use terrace_cache::policy::{Policies, ReplayLog};
use terrace_cache::{KvGroup, PrefixSeed};
use terrace_device::DType;
use terrace_engine::{
    CacheMaker, CacheMakerConfig, DeviceExecutor, Engine, EngineConfig, EngineStats, ExecutorShape,
    KvCacheWishes, KwArg, Lengths, Priority, Request, RequestId, SamplingParams, SchedulerConfig,
    SeqCache, TokenEvent, TokenId,
};
use terrace_kernels::{Compute, CpuOptions, KvLayout, Ops};
use terrace_model::Decoder;
use terrace_model::golden::GoldenCase;
use terrace_testkit::Rng;

const MAX_SEQS: usize = 6;
const CONTEXT: usize = 256;

/// How an engine is set up for one run.
#[derive(Clone, Copy, Debug)]
struct Setting {
    page_tokens: usize,
    max_step_tokens: usize,
    pages: usize,
}

const PLAIN: Setting = Setting { page_tokens: 16, max_step_tokens: 64, pages: 400 };

struct World {
    engine: Engine,
    caches: CacheMaker,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    ids: Vec<TokenId>,
    prompt_logprobs: Vec<f32>,
    /// What the policy decided.
    replay: Option<Box<ReplayLog>>,
}

impl World {
    fn new(setting: Setting) -> Self {
        let (_, folder) = terrace_testkit::golden_cases("llm")
            .into_iter()
            .find(|(name, _)| name == "llama3_gqa_ropescale")
            .expect("a golden model");
        let case = GoldenCase::open(&folder, &folder.join("config.json")).expect("it opens");
        let (spec, tensors) = (case.spec.clone(), case.tensors);
        let layout = spec.page_layout(setting.page_tokens, DType::F32);
        let layers = (0..spec.layers.len()).collect();
        let group = KvGroup { layers, layout: KvLayout::Dense(layout), window: None };
        // The notes of one slot may be more than a page of one token leaves room for.
        let page_bytes = layout.page_bytes() + 16 * 4 * spec.layers.len();
        let Setting { max_step_tokens, pages, .. } = setting;
        let caches = CacheMakerConfig {
            layers: spec.layers.len(),
            shape: terrace_cache::policy::SlotShape {
                kv_heads: layout.kv_heads,
                key_dim: layout.key_dim,
                value_dim: layout.value_dim,
                plain: DType::F32,
            },
            page_bytes,
            wishes: KvCacheWishes::default(),
            context_tokens: CONTEXT,
            chunk_tokens_max: max_step_tokens - MAX_SEQS,
        };
        let ops = Ops::cpu(CpuOptions { threads: 2, level: None, compute: Compute::F32 });
        let ops = ops.expect("a CPU");
        let decoder = Decoder::place(spec.clone(), tensors, &ops, || {}).expect("it is placed");
        let shape = ExecutorShape { max_step_tokens, max_seqs: MAX_SEQS, pages, page_bytes };
        let executor = DeviceExecutor::new(ops, decoder, group.clone(), shape).expect("memory");
        let config = EngineConfig {
            scheduler: SchedulerConfig {
                max_step_tokens,
                max_seqs: MAX_SEQS,
                max_waiting: 100,
                aging_steps: 100,
            },
            kv_groups: vec![group],
            pages,
            prefix_seed: PrefixSeed::new("policies", ""),
            vocab: spec.vocab,
            context_tokens: CONTEXT,
            max_input_len: CONTEXT,
        };
        World {
            engine: Engine::new(Box::new(executor), config).expect("a sound configuration"),
            caches: CacheMaker::new(caches, Policies::built_in()).expect("a sound cache"),
        }
    }

    fn cache(&self, wishes: &KvCacheWishes, prompt: &[TokenId]) -> Option<Arc<SeqCache>> {
        self.caches.make(wishes, prompt, None, 7).expect("a sound cache")
    }

    /// Runs requests side by side, each with its own cache. A prompt whose log-probabilities are
    /// asked shares nothing.
    fn run(&mut self, requests: &[(KvCacheWishes, Vec<TokenId>)]) -> Vec<Outcome> {
        self.run_with(requests, Some(0))
    }

    fn run_with(
        &mut self,
        requests: &[(KvCacheWishes, Vec<TokenId>)],
        prompt_logprobs: Option<usize>,
    ) -> Vec<Outcome> {
        let mut ids: Vec<RequestId> = Vec::new();
        for (wishes, prompt) in requests {
            let request = Request {
                prompt: prompt.clone(),
                sampling: SamplingParams { prompt_logprobs, ..SamplingParams::greedy(NEW_TOKENS) },
                priority: Priority(0),
                cache_salt: String::new(),
                cache: self.cache(wishes, prompt),
            };
            ids.push(self.engine.submit(request).expect("it fits"));
        }
        let nothing = Outcome { ids: Vec::new(), prompt_logprobs: Vec::new(), replay: None };
        let mut outcomes = vec![nothing; requests.len()];
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

    fn stats(&self) -> EngineStats {
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
            TokenEvent::Embedding(_) | TokenEvent::Cache(_) | TokenEvent::Finished { .. } => {}
        }
    }
}

const NEW_TOKENS: usize = 12;

fn wishes(name: &str, cache_length: usize, chunk_size: usize) -> KvCacheWishes {
    KvCacheWishes {
        name: Some(name.into()),
        cache_length: Some(Lengths::One(cache_length)),
        chunk_size: Some(chunk_size),
        replay_log: Some(true),
        ..KvCacheWishes::default()
    }
}

/// Policies that need no text, each with another buffer.
fn evicting() -> Vec<KvCacheWishes> {
    let names = [
        "lastrec-default",
        "streamingllm-default",
        "streamingllm-torch-quantized8",
        "h2o-default",
        "h2o-torch-quantized8",
        "h2o-vlen-torch-quantized4",
        "qh2o-bnb-quantized8",
        "qh2o-vlen-fp8+torch-quantized4",
        "h2o-orig-bnb-quantized4",
    ];
    let mut all: Vec<_> = names.iter().map(|name| wishes(name, 24, 8)).collect();
    let mut graced = wishes("h2o-default", 24, 8);
    graced.grace_period = Some(6);
    graced.cache_kwargs.insert("normalize_scores".into(), KwArg::Flag(true));
    let mut by_layer = wishes("h2o-torch-quantized8", 0, 5);
    by_layer.cache_length = Some(Lengths::EachLayer(vec![32, 20, 32]));
    let random = KvCacheWishes { randomize_chunk_sizes: Some(true), ..wishes("h2o-fp8", 28, 6) };
    all.extend([graced, by_layer, random]);
    all
}

fn prompt(rng: &mut Rng, tokens: usize) -> Vec<TokenId> {
    (0..tokens).map(|_| rng.below(320) as TokenId).collect()
}

fn requests(seed: u64) -> Vec<(KvCacheWishes, Vec<TokenId>)> {
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut requests: Vec<_> = evicting()
        .into_iter()
        .map(|wishes| {
            let tokens = 10 + rng.below(90);
            (wishes, prompt(&mut rng, tokens))
        })
        .collect();
    for name in ["dense-default", "dense-torch-quantized8", "dense-fp8"] {
        requests.push((wishes(name, CONTEXT, 8), prompt(&mut rng, 40)));
    }
    requests
}

/// Every request in an engine of its own.
fn alone(requests: &[(KvCacheWishes, Vec<TokenId>)]) -> Vec<Outcome> {
    let one = |request: &(KvCacheWishes, Vec<TokenId>)| {
        World::new(PLAIN).run(std::slice::from_ref(request)).remove(0)
    };
    requests.iter().map(one).collect()
}

fn assert_same(
    found: &[Outcome],
    wanted: &[Outcome],
    requests: &[(KvCacheWishes, Vec<TokenId>)],
    place: &str,
) {
    for ((found, wanted), (wishes, prompt)) in found.iter().zip(wanted).zip(requests) {
        assert_eq!(found, wanted, "{place}: {wishes:?}, {} tokens", prompt.len());
    }
}

#[test]
fn pages_steps_and_company_change_nothing() {
    let requests = requests(1);
    let wanted = alone(&requests);
    for (page_tokens, max_step_tokens) in [(1, 20), (16, 18), (64, 64)] {
        let setting = Setting { page_tokens, max_step_tokens, pages: 1500 };
        let found = World::new(setting).run(&requests);
        assert_same(&found, &wanted, &requests, &format!("{setting:?}"));
    }
}

#[test]
fn a_second_round_finds_pages_and_answers_the_same() {
    let requests = requests(2);
    let wanted = alone(&requests);
    let mut world = World::new(PLAIN);
    for round in 0..3 {
        let found = world.run_with(&requests, None);
        for ((found, wanted), (wishes, _)) in found.iter().zip(&wanted).zip(&requests) {
            assert_eq!(found.ids, wanted.ids, "round {round}: {wishes:?}");
        }
    }
    assert!(world.stats().prefix_tokens_hit > 0, "nothing was shared");
}

#[test]
fn preempted_sequences_go_on_as_if_nothing_had_been() {
    let mut moved = 0;
    for seed in 3..6 {
        // Those that grow go first, so that they take the pages of those that do not.
        let mut rng = Rng::new(100 + seed);
        let grow = (0..4).map(|_| (KvCacheWishes::default(), prompt(&mut rng, 30)));
        let requests: Vec<_> = grow.chain(requests(seed)).collect();
        let wanted = alone(&requests);
        let mut world = World::new(Setting { page_tokens: 4, max_step_tokens: 24, pages: 46 });
        let found = world.run(&requests);
        assert_same(&found, &wanted, &requests, "a tight pool");
        moved += world.stats().moves_out;
    }
    assert!(moved > 0, "nobody's pages were moved");
}

#[test]
fn a_cache_longer_than_its_sequence_is_dense() {
    let mut rng = Rng::new(7);
    let prompt = prompt(&mut rng, 50);
    let dense = World::new(PLAIN).run(&[(KvCacheWishes::default(), prompt.clone())]).remove(0);
    for name in ["lastrec", "streamingllm", "h2o", "h2o-vlen", "h2o-orig"] {
        let wishes = wishes(&format!("{name}-default"), 128, 8);
        let found = World::new(PLAIN).run(&[(wishes, prompt.clone())]).remove(0);
        assert_eq!(found.ids, dense.ids, "{name}");
        let pairs = found.prompt_logprobs.iter().zip(&dense.prompt_logprobs);
        let most = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(most < 1e-4, "{name}: {most}");
    }
}

#[test]
fn a_log_tells_every_token_and_chunk() {
    let requests = requests(8);
    for (outcome, (wishes, prompt)) in alone(&requests).iter().zip(&requests) {
        let dense = wishes.name.as_ref().is_some_and(|name| name.starts_with("dense"));
        assert_eq!(outcome.replay.is_none(), dense, "{wishes:?}");
        let Some(log) = &outcome.replay else { continue };
        // The last token that is sampled is never computed.
        assert_eq!(log.tokens(), prompt.len() + NEW_TOKENS - 1, "{wishes:?}");
        assert!(log.chunks().ends_with(&[1; NEW_TOKENS - 1]), "{:?}", log.chunks());
        for layer in 0..log.layers() {
            let mut positions = log.positions(layer, 0, log.tokens());
            positions.sort_unstable();
            positions.dedup();
            assert_eq!(positions.len(), log.tokens().min(log.shape(layer).slots), "{wishes:?}");
        }
    }
}
