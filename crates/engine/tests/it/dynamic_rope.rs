//! Positions that follow the length of each sequence: what comes out is what static scaling for
//! that length gives, and depends on the request alone.

use terrace_engine::{
    ComputeChoice, DeviceChoice, EngineSetup, EngineStats, Error, InferenceConfig, Lengths,
    Precision, Priority, Request, RequestId, RequestRetention, RequestedKvCache, SamplingParams,
    Task, TokenEvent, TokenId, WeightSource, YarnRope,
};
use terrace_model::{DecoderSpec, Families, LoadedModel};
use terrace_testkit::{Rng, TinyModel};

/// Tokens that the model counts as trained for; lengths beyond grow by an eighth of it.
const TRAINED: usize = 64;
const STEP: usize = TRAINED / 8;
/// Outputs outgrow two lengths that positions are scaled for.
const NEW_TOKENS: usize = 2 * STEP + 3;
const CONTEXT: usize = 256;
const MAX_SEQS: usize = 6;

/// How an engine is set up for one run.
#[derive(Clone, Copy, Debug)]
struct Setting {
    page_tokens: usize,
    max_step_tokens: usize,
    /// Pages of the pool; as many as are requested where absent.
    pages: Option<usize>,
}

const PLAIN: Setting = Setting { page_tokens: 16, max_step_tokens: 64, pages: None };

struct Fixture {
    setup: EngineSetup,
}

/// What came of a request, to the last bit.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    ids: Vec<TokenId>,
    /// Of the prompt's tokens after the first one.
    prompt_logprobs: Vec<f32>,
    logprobs: Vec<f32>,
}

type Asked = (RequestedKvCache, Vec<TokenId>);

impl Fixture {
    fn new(setting: Setting, yarn: Option<YarnRope>, context: Option<usize>) -> Self {
        let config = InferenceConfig {
            kv_memory_bytes: setting.pages.map(|pages| pages * page_bytes(setting)),
            ..config(setting, yarn, context)
        };
        Fixture { setup: setup(&config, |_| {}).expect("an engine") }
    }

    fn dynamic(setting: Setting) -> Self {
        Fixture::new(setting, Some(YarnRope::Dynamic), Some(CONTEXT))
    }

    /// Runs requests side by side. A prompt whose log-probabilities are asked shares nothing.
    fn run(&mut self, requests: &[Asked]) -> Vec<Outcome> {
        self.run_with(requests, Some(0), NEW_TOKENS)
    }

    fn run_with(
        &mut self,
        requests: &[Asked],
        prompt_logprobs: Option<usize>,
        new_tokens: usize,
    ) -> Vec<Outcome> {
        let mut ids: Vec<RequestId> = Vec::new();
        for (requested, prompt) in requests {
            let cache = self.setup.caches.make(requested, prompt, None, 7).expect("a sound cache");
            let sampling = SamplingParams {
                prompt_logprobs,
                logprobs: Some(0),
                ..SamplingParams::greedy(new_tokens)
            };
            let (priority, cache_salt) = (Priority(0), String::new());
            let task = Task::Generate(sampling);
            let retention = RequestRetention::default();
            let prompt = prompt.clone();
            let request = Request { prompt, task, priority, cache_salt, cache, retention };
            ids.push(self.setup.engine.submit(request).expect("it fits"));
        }
        let mut outcomes = vec![Outcome::default(); requests.len()];
        while !self.setup.engine.is_idle() {
            for (id, event) in self.setup.engine.step() {
                let index = ids.iter().position(|known| *known == id).expect("its own event");
                outcomes[index].take(event);
            }
            self.setup.engine.check();
        }
        outcomes
    }

    fn stats(&self) -> EngineStats {
        self.setup.engine.stats()
    }
}

impl Outcome {
    fn take(&mut self, event: TokenEvent) {
        match event {
            TokenEvent::Token { id, logprobs, .. } => {
                self.ids.push(id);
                self.logprobs.push(logprobs.expect("they were asked").logprob);
            }
            TokenEvent::Prompt(logprobs) => {
                let known = logprobs.into_iter().flatten();
                self.prompt_logprobs = known.map(|token| token.logprob).collect();
            }
            _ => {}
        }
    }

    /// The largest difference of a log-probability, prompt and output.
    fn distance(&self, other: &Outcome) -> f32 {
        let numbers =
            |outcome: &Outcome| [&outcome.prompt_logprobs[..], &outcome.logprobs].concat();
        let (own, other) = (numbers(self), numbers(other));
        assert_eq!(own.len(), other.len());
        own.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }
}

fn config(
    setting: Setting,
    yarn_rope: Option<YarnRope>,
    max_context_len: Option<usize>,
) -> InferenceConfig {
    InferenceConfig {
        device: DeviceChoice::Cpu,
        dtype: Precision::Fp32,
        compute: ComputeChoice::F32,
        threads: Some(2),
        max_batch_size: MAX_SEQS,
        max_input_len: CONTEXT,
        max_output_len: NEW_TOKENS,
        max_step_tokens: setting.max_step_tokens,
        block_size: setting.page_tokens,
        max_context_len,
        yarn_rope,
        ..InferenceConfig::default()
    }
}

/// The tiny model as if it had been trained for short texts.
fn setup(
    config: &InferenceConfig,
    change: impl Fn(&mut DecoderSpec),
) -> Result<EngineSetup, Error> {
    let folder = TinyModel::new();
    let path = folder.path().join("config.json");
    let text = std::fs::read_to_string(&path).expect("a config");
    let shorter = text.replace(
        "\"max_position_embeddings\": 512",
        &format!("\"max_position_embeddings\": {TRAINED}"),
    );
    assert_ne!(text, shorter);
    std::fs::write(&path, shorter).expect("writable");
    let model = LoadedModel::open(&folder.path(), &Families::known()).expect("a model");
    let hash = model.hash_weights();
    let mut spec = model.spec;
    change(&mut spec);
    EngineSetup::new(spec, WeightSource::Files { tensors: model.tensors, hash }, config, || {})
}

/// Bytes of a page in an engine of this setting.
fn page_bytes(setting: Setting) -> usize {
    let config = config(setting, Some(YarnRope::Dynamic), Some(CONTEXT));
    let memory = setup(&config, |_| {}).expect("an engine").memory;
    memory.kv_bytes / memory.kv_pages
}

fn requested(name: &str, cache_length: usize) -> RequestedKvCache {
    RequestedKvCache {
        name: Some(name.into()),
        cache_length: Some(Lengths::One(cache_length)),
        chunk_size: Some(8),
        ..RequestedKvCache::default()
    }
}

fn prompt(rng: &mut Rng, tokens: usize) -> Vec<TokenId> {
    (0..tokens).map(|_| rng.below(320) as TokenId).collect()
}

/// Dense ones of several lengths, before, at and behind the trained one, and other caches.
fn requests(seed: u64) -> Vec<Asked> {
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let lengths = [5, TRAINED - 10, TRAINED, TRAINED + 1, 100, 100 + STEP, 200];
    let mut requests: Vec<Asked> =
        lengths.map(|tokens| (RequestedKvCache::default(), prompt(&mut rng, tokens))).into();
    let caches = [
        ("dense-torch-quantized8", CONTEXT),
        ("lastrec-default", 40),
        ("streamingllm-default", 40),
        ("h2o-torch-quantized8", 40),
        ("h2o-torch-quantized8", 90),
        ("qh2o-vlen-fp8+torch-quantized4", 40),
    ];
    for (name, slots) in caches {
        let tokens = 50 + rng.below(100);
        requests.push((requested(name, slots), prompt(&mut rng, tokens)));
    }
    requests
}

/// Every request in an engine of its own.
fn alone(requests: &[Asked]) -> Vec<Outcome> {
    let one =
        |request: &Asked| Fixture::dynamic(PLAIN).run(std::slice::from_ref(request)).remove(0);
    requests.iter().map(one).collect()
}

fn assert_same(found: &[Outcome], wanted: &[Outcome], requests: &[Asked], place: &str) {
    for ((found, wanted), (requested, prompt)) in found.iter().zip(wanted).zip(requests) {
        assert_eq!(found, wanted, "{place}: {:?}, {} tokens", requested.name, prompt.len());
    }
}

#[test]
fn a_long_prompt_reads_as_if_scaled_for_its_length() {
    let mut rng = Rng::new(1);
    for tokens in [TRAINED + 1, TRAINED + STEP - 1, 100, 201] {
        let asked = [(RequestedKvCache::default(), prompt(&mut rng, tokens))];
        let run = |mut fixture: Fixture| fixture.run_with(&asked, Some(0), 1).remove(0);
        let found = run(Fixture::dynamic(PLAIN));
        let length = TRAINED + (tokens - TRAINED).next_multiple_of(STEP);
        let fixed = |length| Fixture::new(PLAIN, Some(YarnRope::Expected), Some(length));
        let distance = found.distance(&run(fixed(length)));
        assert!(distance < 2e-4, "{tokens} tokens as for {length}: {distance}");
        let distance = found.distance(&run(fixed(length + 2 * TRAINED)));
        assert!(distance > 1e-2, "{tokens} tokens: the length makes no difference");
    }
}

#[test]
fn a_short_text_is_read_as_it_was_trained() {
    let mut rng = Rng::new(2);
    for tokens in [1, 17, TRAINED - NEW_TOKENS] {
        let asked = [(RequestedKvCache::default(), prompt(&mut rng, tokens))];
        let [found, wanted] = [Fixture::dynamic(PLAIN), Fixture::new(PLAIN, None, None)]
            .map(|mut fixture| fixture.run(&asked).remove(0));
        assert_eq!(found.ids, wanted.ids, "{tokens} tokens");
        let distance = found.distance(&wanted);
        assert!(distance < 2e-4, "{tokens} tokens: {distance}");
    }
}

#[test]
fn pages_steps_and_batch_mates_change_nothing() {
    let requests = requests(3);
    let wanted = alone(&requests);
    for (page_tokens, max_step_tokens) in [(1, 20), (16, 18), (64, 300)] {
        let setting = Setting { page_tokens, max_step_tokens, pages: None };
        let found = Fixture::dynamic(setting).run(&requests);
        assert_same(&found, &wanted, &requests, &format!("{setting:?}"));
    }
}

#[test]
fn a_prefix_is_shared_where_it_was_scaled_alike() {
    let mut requests = requests(4);
    // Two that begin alike: scaled for the same length, and for another.
    let (requested, long) = requests[6].clone();
    for tokens in [long.len() - STEP / 2, long.len() - 4 * STEP] {
        requests.push((requested.clone(), long[..tokens].to_vec()));
    }
    let wanted = alone(&requests);
    let mut fixture = Fixture::dynamic(PLAIN);
    for round in 0..3 {
        let found = fixture.run_with(&requests, None, NEW_TOKENS);
        for ((found, wanted), (requested, prompt)) in found.iter().zip(&wanted).zip(&requests) {
            let place = format!("round {round}: {:?}, {} tokens", requested.name, prompt.len());
            assert_eq!((&found.ids, &found.logprobs), (&wanted.ids, &wanted.logprobs), "{place}");
        }
    }
    assert!(fixture.stats().prefix_tokens_hit > 0, "nothing was shared");
}

#[test]
fn only_prompts_scaled_alike_find_each_others_pages() {
    let mut rng = Rng::new(5);
    let long = prompt(&mut rng, 160);
    let hits = |first: usize, second: usize| {
        let mut fixture = Fixture::dynamic(PLAIN);
        let ask = |tokens: usize| [(RequestedKvCache::default(), long[..tokens].to_vec())];
        fixture.run_with(&ask(first), None, 1);
        fixture.run_with(&ask(second), None, 1);
        fixture.stats().prefix_tokens_hit
    };
    assert_eq!(hits(160, 160 - STEP + 1), 144);
    assert_eq!(hits(160, 160 - STEP), 0);
    assert_eq!(hits(TRAINED, 40), 32);
}

#[test]
fn preempted_sequences_go_on_as_if_nothing_had_been() {
    let mut rng = Rng::new(6);
    // All are let in at once, and there is no room for their outputs beyond the next length.
    let growing = (0..5).map(|i| (RequestedKvCache::default(), prompt(&mut rng, TRAINED + 2 + i)));
    let together = Setting { page_tokens: 8, max_step_tokens: 400, pages: Some(52) };
    let spread = Setting { page_tokens: 8, max_step_tokens: 24, pages: Some(34) };
    for (setting, requests) in [(together, growing.collect()), (spread, requests(7))] {
        let wanted = alone(&requests);
        let mut fixture = Fixture::dynamic(setting);
        let found = fixture.run(&requests);
        assert_same(&found, &wanted, &requests, "a tight pool");
        assert!(0 < fixture.stats().swaps_out, "{setting:?}: no pages were moved");
    }
}

#[test]
fn what_cannot_follow_the_length_is_refused() {
    let dynamic = config(PLAIN, Some(YarnRope::Dynamic), Some(CONTEXT));
    let message = |config: &InferenceConfig, change: fn(&mut DecoderSpec)| {
        setup(config, change).err().expect("refused").to_string()
    };
    let unknown = message(&dynamic, |spec| spec.trained_rope = None);
    assert!(unknown.contains("yarn_rope is dynamic: this model's rotation cannot"), "{unknown}");
    let fp8 = InferenceConfig { kv_cache_dtype: Some(Precision::Fp8E4m3), ..dynamic };
    let fp8 = message(&fp8, |_| {});
    assert!(fp8.contains("dense-fp8"), "{fp8}");
}
