//! Policies with a score of their own inside the engine: what it decides is what the specification
//! decides from the same attention, and a device that cannot run them refuses them at the start.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use terrace_cache::policy::{
    Policies, PolicyArgs, PolicyError, ReplayLog, SlotExtras, SlotShape, SlotTable,
};
use terrace_device::DType;
use terrace_engine::text::{GenerationConfig, TextRequest};
use terrace_engine::{
    AsyncInferenceEngine, CacheMaker, CacheMakerConfig, DeviceChoice, Error, InferenceConfig,
    InferenceEngine, KwArg, Lengths, RequestedKvCache, SeqCache, TokenId,
};
use terrace_kernels::{HeadSlots, SlotScorer};
use terrace_testkit::Rng;

use crate::own_policies::{FADING, REPEATING};
use crate::policy_fixture::{Fixture, PLAIN, Setting, alone, assert_same, prompt, requested};
use crate::tiny_model::{config, finish, tiny};

/// Writes down what a score is given.
#[derive(Debug)]
struct Recording {
    scorer: Arc<dyn SlotScorer>,
    calls: Arc<Mutex<Vec<ScoreCall>>>,
}

/// What one call for one head was given.
#[derive(Debug)]
struct ScoreCall {
    positions: Vec<i32>,
    weights: Vec<f32>,
    value_norms: Vec<f32>,
    errors: Vec<f32>,
}

impl SlotScorer for Recording {
    fn score(&self, head: &HeadSlots<'_>, scores: &mut [f32]) {
        self.calls.lock().expect("nobody panics").push(ScoreCall {
            positions: head.positions.to_vec(),
            weights: head.weights.to_vec(),
            value_norms: head.value_norms.to_vec(),
            errors: head.errors.to_vec(),
        });
        self.scorer.score(head, scores);
    }
}

#[test]
fn the_engine_decides_as_the_specification() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let requested = random_requested(&mut rng);
        let tokens = 8 + rng.below(110);
        let prompt = prompt(&mut rng, tokens);
        // One thread goes from layer to layer and from head to head in order.
        let page_tokens = *rng.pick(&[1, 16, 64]);
        let setting = Setting { page_tokens, threads: 1, pages: 800, ..PLAIN };
        let mut fixture = Fixture::new(setting);
        let mut cache = SeqCache::clone(&fixture.cache(&requested, &prompt).expect("a policy"));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let policy = cache.policy.as_mut().expect("a policy that evicts");
        for rule in &mut policy.rules {
            let scorer = rule.scorer.take().expect("a score of its own");
            rule.scorer = Some(Arc::new(Recording { scorer, calls: Arc::clone(&calls) }));
        }
        let run = vec![(Some(Arc::new(cache.clone())), prompt)];
        let log = fixture.run_cached(run, None).remove(0).replay.expect("a log");
        let calls = std::mem::take(&mut *calls.lock().expect("nobody panics"));
        check_decisions(&requested, &cache, &log, &calls);
    }
}

fn random_requested(rng: &mut Rng) -> RequestedKvCache {
    let name = *rng.pick(&["fading-torch-quantized8", "fading-fp8", "repeating-default"]);
    let mut requested = requested(name, 16 + rng.below(30), 1 + rng.below(9));
    requested.grace_period = Some(rng.below(4));
    requested.normalize_scores = Some(rng.below(2) == 0);
    if rng.below(3) == 0 {
        requested.cache_length = Some(Lengths::EachLayer(vec![20, 33, 20]));
    }
    requested
}

/// Runs the specification in every layer on what the engine's attention gave, and holds the log to
/// what it chooses.
fn check_decisions(
    requested: &RequestedKvCache,
    cache: &SeqCache,
    log: &ReplayLog,
    calls: &[ScoreCall],
) {
    let name = requested.name.as_deref().expect("a name").split('-').next().expect("a policy");
    let policies = Policies::built_in().with(FADING).with(REPEATING);
    let built = policies.build(name, PolicyArgs::default());
    let built = built.expect("a known policy").expect("no arguments");
    let rules = &cache.policy.as_ref().expect("a policy").rules;
    let (layers, later) = (log.layers(), log.chunks().len() - 1);
    let heads: usize = (0..layers).map(|layer| log.shape(layer).kv_heads).sum();
    assert_eq!(calls.len(), later * heads, "every chunk but the first, every head");
    for layer in 0..layers {
        let group = cache.groups.iter().position(|group| group.layers.contains(&layer));
        let rule = rules[group.expect("a group")].rule.clone();
        let shape = log.shape(layer);
        let mut table = SlotTable::new(Arc::clone(&built), rule, shape).expect("a rule that fits");
        let before: usize = (0..layer).map(|layer| log.shape(layer).kv_heads).sum();
        let of_chunk = |chunk: usize| {
            let first = (chunk - 1) * heads + before;
            &calls[first..first + shape.kv_heads]
        };
        let notes = Notes::new((1..=later).map(of_chunk));
        for (chunk, tokens) in log.chunks().iter().enumerate() {
            let seen = table.seen_tokens();
            let placement = table.choose(*tokens).expect("a chunk that fits");
            let logged: Vec<u32> = (0..shape.kv_heads)
                .flat_map(|head| log.slots(layer, head, seen..seen + tokens))
                .collect();
            assert_eq!(logged, placement.slots, "layer {layer}, chunk {chunk} of {requested:?}");
            let [value_norms, errors] = notes.of(shape.kv_heads, seen..seen + tokens);
            table.commit(&placement, SlotExtras { value_norms: &value_norms, errors: &errors });
            if chunk > 0 {
                let calls = of_chunk(chunk);
                for (head, call) in calls.iter().enumerate() {
                    assert_eq!(call.positions, table.positions(head), "layer {layer}");
                }
                let weights: Vec<f32> =
                    calls.iter().flat_map(|call| &call.weights).copied().collect();
                table.add_weights(*tokens, &weights);
            }
        }
    }
}

/// Norms and errors by head and position; those in no call have left before they counted.
#[derive(Default)]
struct Notes {
    known: BTreeMap<(usize, i32), [f32; 2]>,
}

impl Notes {
    fn new<'a>(chunks: impl Iterator<Item = &'a [ScoreCall]>) -> Self {
        let mut notes = Notes::default();
        for (head, call) in chunks.flat_map(|heads| heads.iter().enumerate()) {
            for (slot, position) in call.positions.iter().enumerate() {
                let number = |numbers: &[f32]| numbers.get(slot).copied().unwrap_or(0.0);
                let both = [number(&call.value_norms), number(&call.errors)];
                let before = notes.known.insert((head, *position), both);
                assert!(before.is_none_or(|before| before == both), "a stored token changed");
            }
        }
        notes
    }

    /// `[kv_heads][tokens]` of each.
    fn of(&self, kv_heads: usize, positions: std::ops::Range<usize>) -> [Vec<f32>; 2] {
        let heads = 0..kv_heads;
        let both: Vec<[f32; 2]> = heads
            .flat_map(|head| positions.clone().map(move |position| (head, position as i32)))
            .map(|at| self.known.get(&at).copied().unwrap_or_default())
            .collect();
        [0, 1].map(|i| both.iter().map(|both| both[i]).collect())
    }
}

#[test]
fn a_score_that_repeats_h2o_decides_as_h2o() {
    let mut rng = Rng::new(21);
    let requests = |policy: &str, rng: &mut Rng| -> Vec<(RequestedKvCache, Vec<TokenId>)> {
        let buffers = ["default", "torch-quantized8", "fp8"];
        let one =
            |buffer: &&str| (requested(&format!("{policy}-{buffer}"), 24, 8), prompt(rng, 90));
        buffers.iter().map(one).collect()
    };
    let h2o = requests("h2o", &mut rng);
    let own = requests("repeating", &mut Rng::new(21));
    assert_eq!(alone(&own), alone(&h2o));
    // Beside each other they are of one kind of cache, and each keeps its own score.
    let both: Vec<_> = h2o.iter().zip(&own).flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
    let found = Fixture::new(PLAIN).run(&both);
    for pair in found.chunks_exact(2) {
        assert_eq!(pair[0], pair[1]);
    }
}

#[test]
fn scores_stay_with_their_sequences() {
    let mut rng = Rng::new(22);
    let fading = |kept_share: f64| {
        let mut requested = requested("fading-torch-quantized8", 24, 8);
        requested.cache_kwargs.insert("kept_share".into(), KwArg::Number(kept_share));
        requested
    };
    // One kind of cache, so that a step has them in one part.
    let built_in = requested("qh2o-vlen-torch-quantized8", 24, 8);
    let requests: Vec<_> = [fading(0.0), built_in, fading(1.0), fading(0.5)]
        .into_iter()
        .map(|requested| (requested, prompt(&mut rng, 80)))
        .collect();
    let found = Fixture::new(PLAIN).run(&requests);
    assert_same(&found, &alone(&requests), &requests, "side by side");
    let same_prompt: Vec<_> =
        requests.iter().map(|(requested, _)| (requested.clone(), requests[0].1.clone())).collect();
    let logs: Vec<_> = alone(&same_prompt).into_iter().map(|outcome| outcome.replay).collect();
    assert!((1..4).all(|i| !logs[..i].contains(&logs[i])), "two of the scores decide alike");
}

fn maker(runs_own_scores: bool, requested: RequestedKvCache) -> Result<CacheMaker, Error> {
    let shape = SlotShape { kv_heads: 2, key_dim: 8, value_dim: 8, plain: DType::F32 };
    let config = CacheMakerConfig {
        layers: vec![shape; 2],
        page_bytes: 1 << 16,
        requested,
        context_tokens: 1 << 30,
        chunk_tokens_max: 64,
        scored_slots_max: 1000,
        runs_own_scores,
    };
    CacheMaker::new(config, Policies::built_in().with(FADING))
}

#[test]
fn a_device_that_cannot_run_a_score_refuses_it() {
    let own = requested("fading-fp8", 64, 8);
    let refused = |error: &Error| matches!(error, Error::Policy(PolicyError::HostOnly { .. }));
    let of_server = maker(false, own.clone()).err().expect("refused at start");
    assert!(refused(&of_server), "{of_server}");
    assert!(of_server.to_string().contains("--device cpu"), "{of_server}");
    let served = maker(false, RequestedKvCache::default()).expect("a server without it");
    let of_request = served.make(&own, &[1, 2, 3], None, 0).expect_err("refused with the request");
    assert!(refused(&of_request), "{of_request}");
    assert!(served.make(&requested("h2o-fp8", 64, 8), &[1, 2, 3], None, 0).is_ok());
    assert!(maker(true, own).is_ok());
}

#[test]
fn scores_of_too_many_slots_are_refused() {
    for name in ["fading-fp8", "h2o-fp8"] {
        assert!(maker(true, requested(name, 1000, 8)).is_ok(), "{name}");
        let long = maker(true, requested(name, 1001, 8)).err().expect("too long").to_string();
        assert!(long.contains("1000 at most where a policy keeps scores"), "{long}");
    }
    assert!(maker(true, requested("lastrec-fp8", 1001, 8)).is_ok());
}

#[tokio::test]
async fn a_program_serves_with_a_policy_of_its_own() {
    const PROMPT: &str = "a prompt that is longer than the cache is, by far";
    let config = InferenceConfig {
        device: DeviceChoice::Cpu,
        kv_cache: requested("fading-torch-quantized8", 32, 8),
        ..config()
    };
    assert!(InferenceEngine::new(tiny(), &config).is_err(), "nobody knows the policy");
    let policies = Policies::built_in().with(FADING);
    let config = InferenceConfig { policies, ..config };
    let mut engine = InferenceEngine::new(tiny(), &config).expect("an engine");
    let generation = GenerationConfig {
        max_new_tokens: Some(20),
        ignore_eos: Some(true),
        ..GenerationConfig::default()
    };
    let request = TextRequest::new(PROMPT, generation.clone());
    engine.add(TextRequest { cache_trace: true, ..request }).expect("it fits");
    let finished = finish(&mut engine);
    let kept = finished[0].cache_traces[0].groups[0].kept.as_ref().expect("positions");
    assert!(kept.iter().flatten().all(|head| head.count() == 32), "{kept:?}");
    // The same model as a server has it.
    let served = AsyncInferenceEngine::new(tiny(), &config).expect("an engine");
    let outputs = served.generate(1, PROMPT, generation).await.expect("an output");
    assert_eq!(outputs, finished[0].outputs);
}
