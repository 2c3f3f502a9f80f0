//! The whole engine against the original implementations: greedy ids and the prompt's
//! log-probabilities, with pages of several sizes, small steps, and a pool so small that sequences
//! are preempted.

use std::path::Path;

use terrace_cache::{KvGroup, PrefixSeed};
use terrace_device::DType;
use terrace_engine::{
    CpuExecutor, Engine, EngineConfig, Error, ExecutorShape, Priority, Request, RequestId,
    RequestRetention, SamplingParams, SchedulerConfig, Task, TierConfig, TokenEvent, TokenLogprobs,
};
use terrace_kernels::{ArithmeticClass, Compute, CpuLevel, CpuOptions, KvLayout, Ops};
use terrace_model::golden::{GoldenModel, GoldenPrompt};
use terrace_model::{AttentionSpec, Decoder, DecoderSpec, DecoderTensors, LayerGroup};
use terrace_tiers::PageStore;

/// Twice what logits are granted: a log-probability is a difference of two.
const TOLERANCE: f32 = 4e-3;

/// How the engine is set up for one run.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    page_tokens: usize,
    max_step_tokens: usize,
    pool: Pool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pool {
    /// Every sequence fits.
    Ample,
    /// The longest sequence and one page more.
    Tight,
}

pub const SETTINGS: [Setting; 4] = [
    Setting { page_tokens: 1, max_step_tokens: 512, pool: Pool::Ample },
    Setting { page_tokens: 16, max_step_tokens: 7, pool: Pool::Ample },
    Setting { page_tokens: 64, max_step_tokens: 16, pool: Pool::Ample },
    Setting { page_tokens: 4, max_step_tokens: 24, pool: Pool::Tight },
];

#[test]
fn golden_llm_through_the_engine() {
    let mut preemptions = 0;
    for (name, folder) in terrace_testkit::golden_cases("llm") {
        match case_runs(&name, &folder) {
            Ok(preempted) => {
                println!("golden llm: {name} ok through the engine");
                preemptions += preempted;
            }
            Err(terrace_model::Error::Unsupported(what)) => {
                println!("golden llm: {name} skipped, its family is not built yet: {what}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
    assert!(preemptions > 0, "the tight pools were not small enough to preempt anyone");
}

/// Returns how often a sequence was preempted.
fn case_runs(name: &str, folder: &Path) -> Result<u64, terrace_model::Error> {
    let case = GoldenModel::open(folder, &folder.join("config.json"))?;
    let runs = || case.prompts.iter().map(Run::new).collect();
    let mut preemptions = 0;
    for setting in SETTINGS {
        let engine = engine_for(&case, setting);
        preemptions += case_agrees(name, setting, engine, runs());
    }
    Ok(preemptions)
}

/// Layers that see a window have pages of their own; that changes no bit of what is computed.
#[test]
fn windowed_and_full_layers_compute_what_they_do_in_one_group() {
    let folder = terrace_testkit::golden_set("llm").join("mistral_swa");
    let mut case = GoldenModel::open(&folder, &folder.join("config.json")).expect("a golden model");
    let AttentionSpec::GroupedQuery(attention) = &mut case.spec.layers[1].attention;
    assert!(attention.window.take().is_some(), "all layers of this model are windowed");
    for setting in SETTINGS {
        let groups = dense_groups(&case.spec, setting.page_tokens);
        let layers: Vec<_> = groups.iter().map(|group| (&group.layers[..], group.window)).collect();
        assert_eq!(layers, [(&[0, 2][..], Some(16)), (&[1], None)]);
        let mut unwindowed = case.spec.clone();
        for layer in &mut unwindowed.layers {
            let AttentionSpec::GroupedQuery(attention) = &mut layer.attention;
            attention.window = None;
        }
        let one = dense_groups(&unwindowed, setting.page_tokens);
        assert_eq!(one.len(), 1);
        let outputs = |groups| {
            let mut engine = engine_with(&case, setting, groups);
            let mut runs: Vec<Run> = case.prompts.iter().map(Run::new).collect();
            serve(&mut engine, &mut runs, Some(0));
            runs.into_iter().map(|run| (run.output, run.prompt_logprobs)).collect::<Vec<_>>()
        };
        assert_eq!(outputs(groups), outputs(one), "{setting:?}");
    }
}

pub fn engine_for(case: &GoldenModel, setting: Setting) -> Engine {
    engine_with(case, setting, dense_groups(&case.spec, setting.page_tokens))
}

fn engine_with(case: &GoldenModel, setting: Setting, groups: Vec<KvGroup>) -> Engine {
    let longest = case.prompts.iter().map(GoldenPrompt::tokens).max().expect("a prompt");
    let (spec, tensors) = (case.spec.clone(), case.tensors.clone());
    let longest_pages: usize = groups.iter().map(|group| group.pages_for(longest)).sum();
    let pages = match setting.pool {
        Pool::Ample => 8 * longest_pages,
        Pool::Tight => longest_pages + 1,
    };
    let shape = ExecutorShape {
        max_step_tokens: setting.max_step_tokens,
        max_seqs: 6,
        pages,
        page_bytes: groups.iter().map(|group| group.layout.page_bytes()).max().expect("a group"),
    };
    cpu_engine(spec, tensors, groups, CpuShape { executor: shape, store_pages: 0 }, 2, longest)
}

/// An executor's bounds, and pages of its store.
pub struct CpuShape {
    pub executor: ExecutorShape,
    pub store_pages: usize,
}

/// An engine on so many threads, in f32, for sequences of up to `longest` tokens.
pub fn cpu_engine(
    spec: DecoderSpec,
    tensors: DecoderTensors,
    groups: Vec<KvGroup>,
    shape: CpuShape,
    threads: usize,
    longest: usize,
) -> Engine {
    let ops = Ops::cpu(CpuOptions { threads, level: None, compute: Compute::F32 }).expect("a CPU");
    let vocab = spec.vocab;
    let decoder = Decoder::place(spec, tensors, &ops, || {}).expect("the CPU takes all");
    let CpuShape { executor: shape, store_pages } = shape;
    let store = PageStore::begin(&ops.device(), shape.page_bytes, store_pages).expect("memory");
    let store = store.wait().expect("memory");
    let executor = CpuExecutor::new(ops, decoder, groups.clone(), store, shape).expect("memory");
    let config = EngineConfig {
        scheduler: SchedulerConfig {
            max_step_tokens: shape.max_step_tokens,
            max_seqs: shape.max_seqs,
            max_waiting: 100,
            aging_steps: 100,
        },
        kv_groups: groups,
        pages: shape.pages,
        store_pages,
        tiers: TierConfig::default(),
        prefix_seed: prefix_seed(),
        dynamic_rope: None,
        vocab,
        context_tokens: longest,
        max_input_len: longest,
    };
    Engine::new(Box::new(executor), config).expect("a sound configuration")
}

/// Of an engine whose pages leave it never.
pub fn prefix_seed() -> PrefixSeed {
    PrefixSeed::new(&[0; 32], &ArithmeticClass::cpu(CpuLevel::Reference, Compute::F32))
}

/// The groups of a cache that keeps every key and value as it is.
pub fn dense_groups(spec: &DecoderSpec, block_tokens: usize) -> Vec<KvGroup> {
    let groups = spec.kv_groups(block_tokens, DType::F32).into_iter();
    groups
        .map(|LayerGroup { layers, layout, window }| KvGroup {
            layers,
            layout: KvLayout::Dense(layout),
            window,
        })
        .collect()
}

fn case_agrees(name: &str, setting: Setting, mut engine: Engine, mut runs: Vec<Run>) -> u64 {
    // The longest, then the shortest: that one fits beside it at first, and not at the end.
    runs.sort_by_key(Run::tokens);
    runs.rotate_right(1);
    // Twice, so that the second round finds the first one's pages by content.
    for round in 0..2 {
        serve(&mut engine, &mut runs, (round == 0).then_some(0));
        for (index, run) in runs.iter_mut().enumerate() {
            run.agree(&format!("{name} {setting:?} round {round} prompt {index}"));
        }
    }
    let stats = engine.stats();
    assert_eq!(stats.pages_free, stats.pages_total, "{name} {setting:?}: pages are held");
    stats.preemptions
}

/// Starts all and steps until each has ended.
fn serve(engine: &mut Engine, runs: &mut [Run], prompt_logprobs: Option<usize>) {
    for run in &mut *runs {
        run.start(engine, prompt_logprobs).expect("it fits");
    }
    while !engine.is_idle() {
        for (id, event) in engine.step() {
            let run = runs.iter_mut().find(|run| run.id == Some(id)).expect("its own event");
            run.take(event);
        }
        engine.check();
    }
}

struct Run {
    prompt: Vec<u32>,
    greedy: Vec<u32>,
    logits: Vec<Vec<f32>>,
    id: Option<RequestId>,
    output: Vec<u32>,
    prompt_logprobs: Option<Vec<Option<TokenLogprobs>>>,
}

impl Run {
    /// Prompt and output.
    fn tokens(&self) -> usize {
        self.prompt.len() + self.greedy.len()
    }

    fn new(golden: &GoldenPrompt) -> Self {
        Run {
            prompt: golden.input_ids.clone(),
            greedy: golden.greedy_ids.clone(),
            logits: golden.logits.clone(),
            id: None,
            output: Vec::new(),
            prompt_logprobs: None,
        }
    }

    fn start(&mut self, engine: &mut Engine, prompt_logprobs: Option<usize>) -> Result<(), Error> {
        self.output.clear();
        self.prompt_logprobs = None;
        self.id = Some(engine.submit(Request {
            prompt: self.prompt.clone(),
            task: Task::Generate(SamplingParams {
                prompt_logprobs,
                ..SamplingParams::greedy(self.greedy.len())
            }),
            priority: Priority::default(),
            cache_salt: String::new(),
            retention: RequestRetention::default(),
            cache: None,
        })?);
        Ok(())
    }

    fn take(&mut self, event: TokenEvent) {
        match event {
            TokenEvent::Token { id, .. } => self.output.push(id),
            TokenEvent::Prompt(logprobs) => self.prompt_logprobs = Some(logprobs),
            TokenEvent::CachedPrompt { .. }
            | TokenEvent::Embedding(_)
            | TokenEvent::Cache(_)
            | TokenEvent::Replay { .. }
            | TokenEvent::Finished { .. } => {}
        }
    }

    fn agree(&self, place: &str) {
        assert_eq!(self.output, self.greedy, "{place}");
        let Some(logprobs) = &self.prompt_logprobs else { return };
        assert_eq!(logprobs.len(), self.prompt.len(), "{place}");
        for (position, token) in logprobs.iter().enumerate().skip(1) {
            let found = token.as_ref().expect("all but the first").logprob;
            let wanted = log_softmax(&self.logits[position - 1], self.prompt[position]);
            assert!((found - wanted).abs() <= TOLERANCE, "{place} {position}: {found} {wanted}");
        }
    }
}

fn log_softmax(row: &[f32], token: u32) -> f32 {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = row.iter().map(|score| (score - largest).exp()).sum();
    row[token as usize] - largest - sum.ln()
}
