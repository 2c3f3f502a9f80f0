//! A device that computes nothing but remembers, for each slot, from which tokens it was filled.
//!
//! A token's keys and values depend on all tokens before it, so a slot's content is a hash of the
//! prefix and the salt. The executor panics when a plan reads a slot that does not hold what its
//! sequence needs: wrong sharing, a missed copy, a page given away too early all end there. The
//! next token is a function of seed, choice and content alone, so an answer is known beforehand.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use terrace_cache::{PageCopy, PageId};
use terrace_engine::{
    Chunk, EngineConfig, Error, Executor, Request, RequestId, Sampled, SampledToken,
    SchedulerConfig, SeqId, SeqState, Sequence, Sequences, StepOutput, StepPlan, TokenId,
    TokenLogprobs,
};

use terrace_testkit::Rng;

/// What the test is told about each step, the latest last.
pub type Log = Arc<Mutex<Vec<StepLog>>>;

pub struct StepLog {
    /// Running sequences by request and first choice, and whether the step advances them.
    pub running: Vec<(RequestId, usize, bool)>,
    pub preempted: Vec<(RequestId, usize)>,
    pub rows: usize,
    pub copies: usize,
}

pub struct SimulatedExecutor {
    memory: Memory,
    hashes: HashMap<SeqId, Vec<u64>>,
    vocab: usize,
    scheduler: SchedulerConfig,
    /// One step in so many fails; 0 for never.
    failure_odds: usize,
    rng: Rng,
    log: Log,
}

impl SimulatedExecutor {
    pub fn new(config: &EngineConfig, failure_odds: usize, seed: u64, log: Log) -> Self {
        let page_tokens = config.kv_groups.iter().map(|group| group.page_tokens()).collect();
        SimulatedExecutor {
            memory: Memory::new(config.pages, page_tokens),
            hashes: HashMap::new(),
            vocab: config.vocab,
            scheduler: config.scheduler,
            failure_odds,
            rng: Rng::new(seed),
            log,
        }
    }

    /// Hashes of all prefixes of the sequence; entry `n` is of its first `n` tokens.
    fn learn_hashes(&mut self, plan: &StepPlan, seqs: &Sequences) {
        if 4 * seqs.len() + 64 < self.hashes.len() {
            self.hashes.retain(|id, _| seqs.get(*id).is_some());
        }
        for chunk in &plan.chunks {
            let seq = &seqs[chunk.seq];
            let hashes = self.hashes.entry(seq.id()).or_insert_with(|| vec![root(seq.request())]);
            for token in &seq.tokens()[hashes.len() - 1..] {
                let last = *hashes.last().expect("the root is there");
                hashes.push(mix(last, u64::from(*token)));
            }
        }
    }

    fn check_plan(&self, plan: &StepPlan, seqs: &Sequences) {
        assert!(plan.tokens() <= self.scheduler.max_step_tokens, "{} rows", plan.tokens());
        let running = || seqs.iter().filter(|seq| seq.state() == SeqState::Running);
        let seats: usize = running().map(|seq| seq.choices().len()).sum();
        assert!(seats <= self.scheduler.max_seqs, "{seats} seats of {}", self.scheduler.max_seqs);
        let mut seen = HashSet::new();
        for chunk in &plan.chunks {
            let seq = &seqs[chunk.seq];
            assert!(seen.insert(chunk.seq), "{:?} has two chunks", chunk.seq);
            assert_eq!(seq.state(), SeqState::Running);
            assert_eq!(chunk.start, seq.computed());
            assert!(0 < chunk.tokens && chunk.end() <= seq.tokens().len());
            assert_eq!(chunk.sample, chunk.end() == seq.tokens().len());
        }
    }

    fn sample(&mut self, seq: &Sequence, chunk: &Chunk) -> Option<Sampled> {
        let is_unlucky = self.is_unlucky();
        let hashes = &self.hashes[&seq.id()];
        let token = |choice| SampledToken {
            id: next_token(seq.request(), choice, hashes[chunk.end()], self.vocab),
            logprobs: None,
        };
        let tokens = match chunk.sample {
            true if is_unlucky => Err("simulated".into()),
            true => Ok(seq.choices().map(token).collect()),
            false => Ok(Vec::new()),
        };
        let prompt_logprobs = seq.wants_prompt_logprobs().then(|| {
            let end = chunk.end().min(seq.prompt_len() - 1);
            (chunk.start + 1..=end).map(|position| prompt_logprobs(hashes[position])).collect()
        });
        let is_due = chunk.sample || prompt_logprobs.is_some();
        is_due.then(|| Sampled { seq: seq.id(), tokens, prompt_logprobs })
    }

    /// Whether no token can be chosen for this sequence.
    fn is_unlucky(&mut self) -> bool {
        0 < self.failure_odds && self.rng.below(10 * self.failure_odds) == 0
    }

    fn write_log(&self, plan: &StepPlan, seqs: &Sequences) {
        let name = |seq: &Sequence| (seq.request_id(), seq.choices().start);
        let advances: HashSet<_> = plan.chunks.iter().map(|chunk| chunk.seq).collect();
        let running = seqs.iter().filter(|seq| seq.state() == SeqState::Running);
        let log = StepLog {
            running: running
                .map(|seq| (name(seq).0, name(seq).1, advances.contains(&seq.id())))
                .collect(),
            preempted: plan.preempted.iter().map(|id| name(&seqs[*id])).collect(),
            rows: plan.tokens(),
            copies: plan.copies.iter().map(Vec::len).sum(),
        };
        self.log.lock().expect("the test has not panicked").push(log);
    }
}

impl Executor for SimulatedExecutor {
    fn run(&mut self, plan: &StepPlan, seqs: &Sequences) -> Result<StepOutput, Error> {
        self.write_log(plan, seqs);
        self.check_plan(plan, seqs);
        self.learn_hashes(plan, seqs);
        let fails = 0 < self.failure_odds && self.rng.below(self.failure_odds) == 0;
        self.memory.begin_step(&plan.copies);
        for chunk in &plan.chunks {
            self.memory.read(&seqs[chunk.seq], chunk.start, &self.hashes[&chunk.seq]);
        }
        for chunk in &plan.chunks {
            let hashes = (!fails).then_some(&self.hashes[&chunk.seq]);
            self.memory.commit(&seqs[chunk.seq], chunk, hashes);
        }
        if fails {
            return Err(Error::Step("simulated".into()));
        }
        let sampled = plan.chunks.iter().filter_map(|chunk| self.sample(&seqs[chunk.seq], chunk));
        Ok(StepOutput { sampled: sampled.collect() })
    }
}

/// The token that follows `content` in answer `choice` of the request.
pub fn next_token(request: &Request, choice: usize, content: u64, vocab: usize) -> TokenId {
    (mix(mix(request.sampling.seed, choice as u64), content) % vocab as u64) as TokenId
}

/// The report on the token that follows `content`.
pub fn prompt_logprobs(content: u64) -> TokenLogprobs {
    TokenLogprobs { logprob: (content % 1000) as f32, top: Vec::new() }
}

/// The content of nothing, under the request's salt.
pub fn root(request: &Request) -> u64 {
    request.cache_salt.bytes().fold(1, |hash, byte| mix(hash, u64::from(byte)))
}

/// The content after one token more.
pub fn mix(content: u64, token: u64) -> u64 {
    Rng::new(content.rotate_left(17) ^ token.wrapping_mul(0x2545_f491_4f6c_dd1d)).number()
}

struct Memory {
    page_tokens: Vec<usize>,
    pages: Vec<PageContent>,
    step: u64,
}

#[derive(Clone, Default)]
struct PageContent {
    /// The group that wrote the page last.
    group: usize,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    content: Option<u64>,
    read_in_step: u64,
    written_in_step: u64,
}

impl Memory {
    fn new(pages: usize, page_tokens: Vec<usize>) -> Self {
        Memory { page_tokens, pages: vec![PageContent::default(); pages], step: 0 }
    }

    /// Makes the copies, in reverse: their order must not matter.
    fn begin_step(&mut self, copies: &[Vec<PageCopy>]) {
        self.step += 1;
        let mut written = HashSet::new();
        for copy in copies.iter().flatten() {
            assert!(written.insert(copy.to), "{:?} is written twice", copy.to);
        }
        for copy in copies.iter().flatten().rev() {
            assert!(!written.contains(&copy.from), "{:?} is read and written", copy.from);
            self.pages[copy.to.index()] = self.pages[copy.from.index()].clone();
        }
    }

    /// Every token before `start` must be where its sequence looks for it.
    fn read(&mut self, seq: &Sequence, start: usize, hashes: &[u64]) {
        for (group, table) in seq.tables().iter().enumerate() {
            for (position, content) in hashes[1..=start].iter().enumerate() {
                let page_tokens = self.page_tokens[group];
                let page = &mut self.pages[table.pages()[position / page_tokens].index()];
                assert_eq!(page.group, group, "{:?} reads another group's page", seq.id());
                let slot = &mut page.slots[position % page_tokens];
                assert_eq!(slot.content, Some(*content), "{:?} at {position}", seq.id());
                slot.read_in_step = self.step;
            }
        }
    }

    /// Fills the chunk's slots, with garbage (`None`) if the step is to fail.
    fn commit(&mut self, seq: &Sequence, chunk: &Chunk, hashes: Option<&Vec<u64>>) {
        for (group, table) in seq.tables().iter().enumerate() {
            let page_tokens = self.page_tokens[group];
            for position in chunk.start..chunk.end() {
                let id: PageId = table.pages()[position / page_tokens];
                assert_eq!(table.slot(position), id.slot(position % page_tokens, page_tokens));
                let page = &mut self.pages[id.index()];
                if page.group != group || page.slots.is_empty() {
                    let was_used = |slot: &Slot| {
                        slot.read_in_step == self.step || slot.written_in_step == self.step
                    };
                    assert!(!page.slots.iter().any(was_used), "{id:?} is used by two groups");
                    *page = PageContent { group, slots: vec![Slot::default(); page_tokens] };
                }
                let slot = &mut page.slots[position % page_tokens];
                assert_ne!(slot.read_in_step, self.step, "{id:?} is read and written");
                assert_ne!(slot.written_in_step, self.step, "{id:?} is written twice");
                slot.written_in_step = self.step;
                slot.content = hashes.map(|hashes| hashes[position + 1]);
            }
        }
    }
}
