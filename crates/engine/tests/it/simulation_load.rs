//! Random fixtures and random requests, and the outputs they must get.

use std::sync::Arc;

use terrace_cache::KvGroup;
use terrace_cache::placement::PlacementRule;
use terrace_cache::policy::{ChunkSizes, KeyPositions, RecentRule, Rule, chunk_plan};
use terrace_device::DType;
use terrace_engine::{
    EngineConfig, FinishReason, GroupRule, Priority, Request, RequestRetention, SamplingParams,
    SchedulerConfig, SeqCache, SeqPolicy, SessionKey, Task, TierConfig, TokenEvent, TokenId,
};
use terrace_kernels::{KvLayout, PageLayout, RowFormat, SlotLayout, SlotNotes};

use crate::golden_engine::prefix_seed;
use crate::simulation_executor::{mix, next_token, prompt_logprobs, root};
use crate::simulation_tiers::SimulatedTier;
use terrace_testkit::Rng;

pub const VOCAB: usize = 11;

/// Greedy in name; the simulated device draws its tokens by seed, choice and content.
pub fn sampling() -> SamplingParams {
    SamplingParams::greedy(4)
}

/// How a request that generates samples.
pub fn sampling_mut(request: &mut Request) -> &mut SamplingParams {
    match &mut request.task {
        Task::Generate(sampling) => sampling,
        Task::Embed => panic!("it samples nothing"),
    }
}

pub fn request(prompt: &[TokenId]) -> Request {
    Request {
        prompt: prompt.to_vec(),
        task: Task::Generate(sampling()),
        priority: Priority(0),
        cache_salt: String::new(),
        retention: RequestRetention::default(),
        cache: None,
    }
}

/// A kv group of a simulated engine.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub page_tokens: usize,
    pub window: Option<usize>,
}

impl Group {
    pub fn of(page_tokens: usize) -> Self {
        Group { page_tokens, window: None }
    }
}

/// Of one number for each key and value.
const LAYOUT: PageLayout = PageLayout {
    layers: 1,
    kv_heads: 1,
    page_tokens: 1,
    key_dim: 1,
    value_dim: 1,
    dtype: DType::F32,
};

pub fn config(groups: &[Group], pages: usize, scheduler: SchedulerConfig) -> EngineConfig {
    let group = |(layer, &Group { page_tokens, window }): (usize, &Group)| KvGroup {
        layers: vec![layer],
        layout: KvLayout::Dense(PageLayout { page_tokens, ..LAYOUT }),
        window,
    };
    EngineConfig {
        scheduler,
        kv_groups: groups.iter().enumerate().map(group).collect(),
        pages,
        store_pages: pages,
        tiers: TierConfig::default(),
        prefix_seed: prefix_seed(),
        dynamic_rope: None,
        vocab: VOCAB,
        context_tokens: 1000,
        max_input_len: 500,
    }
}

/// A small engine for sequences of up to `longest` tokens.
pub fn random_config(rng: &mut Rng, groups: &[Group], longest: usize) -> EngineConfig {
    let one_seq: usize = groups.iter().map(|group| longest.div_ceil(group.page_tokens)).sum();
    // From barely one sequence to about four, rarely too small for the longest.
    let pages = one_seq - rng.below(2) + rng.below(3 * one_seq);
    let max_seqs = 1 + rng.below(8);
    let scheduler = SchedulerConfig {
        max_step_tokens: max_seqs + rng.below(24),
        max_seqs,
        max_waiting: 4 + rng.below(20),
        aging_steps: 1 + rng.below(30) as u32,
    };
    // From no store at all to one that is never full.
    let store_pages = rng.below(2) * rng.below(2 * pages);
    EngineConfig { store_pages, ..config(groups, pages, scheduler) }
}

/// The same engine over a store that takes content, and these tiers.
pub fn random_tiers(rng: &mut Rng, config: EngineConfig, lower: &[SimulatedTier]) -> EngineConfig {
    let store_pages = 2 + rng.below(2 * config.pages);
    let rules = [PlacementRule::Lru, PlacementRule::TinyLfu, PlacementRule::Arc];
    let tiers = TierConfig {
        placement: *rng.pick(&rules),
        device_reserve: rng.below(config.pages),
        store_reserve: rng.below(store_pages + 1),
        writes_through: rng.below(3) == 0,
        wait_ms: rng.below(3) as u64 * rng.below(10) as u64,
        batch_pages: 1 + rng.below(8),
        pin_pages: store_pages / 2,
        page_bytes: 1,
        lower: lower.iter().map(SimulatedTier::listed).collect(),
    };
    EngineConfig { store_pages, tiers, ..config }
}

/// A request of at most `longest` tokens. Many begin alike, some in the middle of each other.
pub fn random_request(rng: &mut Rng, longest: usize, most_choices: usize) -> Request {
    let shared = rng.below(longest / 2);
    let own = 1 + rng.below(longest / 4);
    let stem = rng.below(3) as TokenId;
    let mut prompt: Vec<TokenId> = (0..shared as TokenId).map(|i| (i + stem) % 5).collect();
    prompt.extend((0..own).map(|_| rng.below(VOCAB) as TokenId));
    let max_new_tokens = rng.below(longest - prompt.len() + 1);
    let choices = if rng.below(4) == 0 { 1 + rng.below(most_choices) } else { 1 };
    let stop_ids = if rng.below(3) == 0 { vec![rng.below(VOCAB) as TokenId] } else { Vec::new() };
    let prompt_logprobs = (rng.below(8) == 0).then_some(1);
    let seed = rng.below(3) as u64;
    // One in four needs the host to sample its tokens.
    let repetition_penalty = if rng.below(4) == 0 { 1.5 } else { 1.0 };
    Request {
        prompt,
        task: Task::Generate(SamplingParams {
            seed,
            choices,
            max_new_tokens,
            stop_ids,
            prompt_logprobs,
            repetition_penalty,
            ..sampling()
        }),
        priority: Priority(if rng.below(3) == 0 { rng.below(7) as i32 - 3 } else { 0 }),
        cache_salt: if rng.below(6) == 0 { "salt".into() } else { String::new() },
        retention: random_retention(rng),
        cache: None,
    }
}

/// Of one of few sessions, with a priority of its own, or as most are.
fn random_retention(rng: &mut Rng) -> RequestRetention {
    let session = (rng.below(4) == 0).then(|| random_session(rng));
    match rng.below(3) {
        0 => RequestRetention {
            priority: rng.below(101) as u8,
            ttl_ms: (rng.below(2) == 0).then(|| 1 + rng.below(200) as u64),
            session,
        },
        _ => RequestRetention { session, ..RequestRetention::default() },
    }
}

pub fn random_session(rng: &mut Rng) -> SessionKey {
    SessionKey { owner: Some(rng.below(2)), id: rng.below(3).to_string() }
}

/// A cache that evicts, over pages like those of `groups`: few slots, short chunks.
pub fn random_cache(rng: &mut Rng, groups: &[KvGroup], prompt: usize) -> Arc<SeqCache> {
    let lengths: Vec<usize> = groups.iter().map(|_| 4 + rng.below(12)).collect();
    let tokens = 1 + rng.below(3);
    let chunks = chunk_plan(&lengths, prompt, ChunkSizes { tokens, random_seed: None });
    let chunk_ends = chunks.iter().scan(0, |end, tokens| {
        *end += tokens;
        Some(*end)
    });
    let rule = |slots: &usize| GroupRule {
        slots: *slots,
        rule: Rule::Recent(RecentRule {
            protected_tokens: 1,
            text_segment: None,
            key_positions: KeyPositions::InSequence,
        }),
        scorer: None,
    };
    let group = |group: &KvGroup| KvGroup {
        layout: KvLayout::Slots(SlotLayout {
            layers: 1,
            kv_heads: 1,
            page_slots: group.page_tokens(),
            key_dim: 1,
            value_dim: 1,
            keys: RowFormat::F32,
            values: RowFormat::F32,
            notes: SlotNotes::default(),
        }),
        layers: group.layers.clone(),
        window: None,
    };
    let rules = lengths.iter().map(rule).collect();
    let policy = SeqPolicy { rules, chunk_ends: chunk_ends.collect(), keeps_log: false };
    let groups = groups.iter().map(group).collect();
    Arc::new(SeqCache { policy: Some(policy), ..SeqCache::whole(groups) })
}

/// All that should be reported about one choice of a request, by the rules alone.
pub fn expected_events(request: &Request, choice: usize) -> Vec<TokenEvent> {
    let content = |hash: u64, token: &TokenId| mix(hash, u64::from(*token));
    let mut hash = request.prompt.iter().fold(root(request), content);
    let mut events = Vec::new();
    let mut reason = FinishReason::Length;
    for _ in 0..request.max_new_tokens() {
        let id = next_token(request, choice, hash, VOCAB);
        hash = content(hash, &id);
        events.push(TokenEvent::Token { choice, id, logprobs: None });
        if request.sampling().is_some_and(|sampling| sampling.stop_ids.contains(&id)) {
            reason = FinishReason::Stop(id);
            break;
        }
    }
    events.push(TokenEvent::Finished { choice, reason });
    events
}

/// The report on the prompt, if the request asks for it.
pub fn expected_prompt(request: &Request) -> Option<TokenEvent> {
    request.sampling()?.prompt_logprobs?;
    let mut hash = root(request);
    let mut report = vec![None];
    for token in &request.prompt[..request.prompt.len() - 1] {
        hash = mix(hash, u64::from(*token));
        report.push(Some(prompt_logprobs(hash)));
    }
    Some(TokenEvent::Prompt(report))
}
