//! A device that computes nothing but remembers, for each slot, from which tokens it was filled.
//!
//! A token's keys and values depend on all tokens before it, so a slot's content is a hash of the
//! prefix and the salt. The executor panics when a plan reads a slot that does not hold what its
//! sequence needs: wrong sharing, a missed copy, a page given away too early all end there. The
//! next token is a function of seed, choice and content alone, so an output is known beforehand.
//!
//! Steps have their effects when they are started, which is their order on any device; what they
//! sampled is reported when they are finished. Moves of pages take as long as the seed says.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_cache::{MoveId, PageId, PageMove};
use terrace_engine::{
    Chunk, ChunkInput, EngineConfig, Error, Executor, Request, RequestId, Sampled, SampledToken,
    SamplingParams, SchedulerConfig, SeqId, SeqState, Sequence, Sequences, StepOutput, StepPlan,
    TokenId, TokenLogprobs,
};

use crate::simulation_memory::Memory;
use terrace_testkit::Rng;
use terrace_tiers::Wait;

/// What the test learns about each step, the latest last.
pub type Log = Arc<Mutex<Vec<StepLog>>>;

pub struct StepLog {
    /// Running sequences by request and first choice, and whether the step advances them.
    pub running: Vec<(RequestId, usize, bool)>,
    /// Those that wait for their bytes.
    pub fetching: Vec<RequestId>,
    pub preempted: Vec<(RequestId, usize)>,
    pub rows: usize,
    /// Rows whose token the step before samples.
    pub rows_ahead: usize,
    pub copies: usize,
    /// Moves that the step starts.
    pub moves: usize,
    /// Moves that the step waits for.
    pub awaited: usize,
    /// Pages or bytes are on their way, for which somebody may wait.
    pub has_moves: bool,
}

pub struct SimulatedExecutor {
    behaviour: Behaviour,
    memory: Arc<Mutex<Memory>>,
    hashes: HashMap<SeqId, Vec<u64>>,
    /// What the steps under way sampled, the oldest first.
    under_way: VecDeque<StepOutput>,
    started: usize,
    vocab: usize,
    scheduler: SchedulerConfig,
    rng: Rng,
    /// Draws when moves arrive.
    moves_rng: Rng,
    log: Log,
}

#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    pub max_under_way: usize,
    pub failures: Failures,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failures {
    Never,
    /// Of so many starts one, of so many finishes one, and sometimes the choice of a token.
    OneIn(usize),
    /// When this step is started, the first being 1.
    Start(usize),
    /// When this step is finished.
    Finish(usize),
}

impl SimulatedExecutor {
    pub fn new(config: &EngineConfig, behaviour: Behaviour, log: Log) -> Self {
        let memory = Memory::new(config.pages, config.store_pages, config.kv_groups.clone());
        let memory = Arc::new(Mutex::new(memory));
        SimulatedExecutor {
            behaviour,
            memory,
            hashes: HashMap::new(),
            under_way: VecDeque::new(),
            started: 0,
            vocab: config.vocab,
            scheduler: config.scheduler,
            rng: Rng::new(behaviour.seed),
            moves_rng: Rng::new(behaviour.seed ^ 1),
            log,
        }
    }

    /// The memory of the device and of the store, for the tiers below.
    pub fn shared_memory(&self) -> Arc<Mutex<Memory>> {
        Arc::clone(&self.memory)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("nobody has panicked")
    }

    /// Fails: all that is under way is lost.
    fn fail(&mut self) -> Error {
        self.memory().spoil_last(self.under_way.len());
        self.memory().lose_moves(self.under_way.len());
        self.under_way.clear();
        Error::Step("simulated".into())
    }

    /// Hashes of all prefixes of the sequence; entry `n` is of its first `n` tokens.
    fn learn_hashes(&mut self, plan: &StepPlan, seqs: &Sequences) {
        if 4 * seqs.len() + 64 < self.hashes.len() {
            self.hashes.retain(|id, _| seqs.get(*id).is_some());
        }
        for chunk in &plan.chunks {
            let seq = &seqs[chunk.seq];
            let mut tokens = seq.tokens().to_vec();
            if chunk.input == ChunkInput::SampledBefore {
                tokens.push(self.sampled_before(chunk));
            }
            let hashes = self.hashes.entry(seq.id()).or_insert_with(|| vec![root(seq.request())]);
            // Also the last ones again: of these the device knew a token before the host.
            let first = hashes.len().saturating_sub(3);
            for (position, token) in tokens.iter().enumerate().skip(first) {
                let hash = mix(hashes[position], u64::from(*token));
                match hashes.get(position + 1) {
                    Some(known) => assert_eq!(*known, hash, "{chunk:?}: token {position} differs"),
                    None => hashes.push(hash),
                }
            }
        }
    }

    /// The token that the step before sampled for the chunk's sequence.
    fn sampled_before(&self, chunk: &Chunk) -> TokenId {
        let before = self.under_way.back().expect("a step is under way");
        let sampled = before.sampled.iter().find(|sampled| sampled.seq == chunk.seq);
        let sampled = sampled.unwrap_or_else(|| panic!("{chunk:?}: nothing was sampled before"));
        match &sampled.outputs[..] {
            [Ok(tokens)] if tokens.len() == 1 => tokens[0].id,
            // The host will learn it and drop the row; until then, any token will do.
            [Err(_)] => 0,
            outputs => panic!("{chunk:?}: {outputs:?} were sampled before"),
        }
    }

    fn check_plan(&self, plan: &StepPlan, seqs: &Sequences) {
        assert!(plan.tokens() <= self.scheduler.max_step_tokens, "{} rows", plan.tokens());
        let running = || seqs.iter().filter(|seq| seq.state() == SeqState::Running);
        let rows: usize = running().map(|seq| seq.choices().len()).sum();
        assert!(rows <= self.scheduler.max_seqs, "{rows} rows of {}", self.scheduler.max_seqs);
        let is_ahead = !self.under_way.is_empty();
        assert!(!is_ahead || plan.preempted.is_empty(), "preempted for a plan ahead");
        let is_alone = plan.chunks.len() == 1 && running().count() == 1;
        assert!(plan.awaited.is_empty() || is_alone, "others wait for one's bytes");
        let mut seen = HashSet::new();
        for chunk in &plan.chunks {
            let seq = &seqs[chunk.seq];
            assert!(seen.insert(chunk.seq), "{:?} has two chunks", chunk.seq);
            assert_eq!(seq.state(), SeqState::Running);
            assert!(seq.computed() <= chunk.start && 0 < chunk.tokens);
            assert_eq!(seq.started(), chunk.end());
            let sequence_end = match chunk.input {
                ChunkInput::Known => seq.tokens().len(),
                ChunkInput::SampledBefore => {
                    assert_eq!((chunk.start, chunk.tokens), (seq.tokens().len(), 1));
                    assert_eq!(seq.choices().len(), 1, "{chunk:?}");
                    assert!(!seq.wants_prompt_logprobs(), "{chunk:?}");
                    assert!(seq.request().sampling().is_some_and(|it| self.samples_on_device(it)));
                    seq.tokens().len() + 1
                }
            };
            assert!(sequence_end < seq.prompt_len() + seq.request().max_new_tokens().max(1));
            assert!(chunk.end() <= sequence_end);
            if let Some(policy) = seq.policy() {
                let is_part = chunk.end() <= policy.first_chunk();
                assert!(is_part || chunk.end() == policy.chunk_end(chunk.start), "{chunk:?}");
            }
            let outputs = if chunk.end() == sequence_end { 1 } else { 0 };
            assert_eq!(chunk.outputs, chunk.end() - outputs..chunk.end());
        }
    }

    fn sample(&mut self, seq: &Sequence, chunk: &Chunk) -> Option<Sampled> {
        let is_unlucky = self.is_unlucky();
        let hashes = &self.hashes[&seq.id()];
        let token = |choice| SampledToken {
            id: next_token(seq.request(), choice, hashes[chunk.end()], self.vocab),
            logprobs: None,
        };
        let output = |_| match is_unlucky {
            true => Err("simulated".to_owned().into()),
            false => Ok(seq.choices().map(token).collect()),
        };
        let outputs: Vec<_> = chunk.outputs.clone().map(output).collect();
        let prompt_logprobs = seq.wants_prompt_logprobs().then(|| {
            let end = chunk.end().min(seq.prompt_len() - 1);
            (chunk.start + 1..=end).map(|position| prompt_logprobs(hashes[position])).collect()
        });
        let is_due = !outputs.is_empty() || prompt_logprobs.is_some();
        is_due.then(|| Sampled { seq: seq.id(), outputs, prompt_logprobs })
    }

    /// Whether no token can be sampled for this sequence.
    fn is_unlucky(&mut self) -> bool {
        match self.behaviour.failures {
            Failures::OneIn(odds) => self.rng.below(10 * odds) == 0,
            _ => false,
        }
    }

    fn fails(&mut self, moment: Failures) -> bool {
        match self.behaviour.failures {
            Failures::OneIn(odds) => self.rng.below(odds) == 0,
            wanted => wanted == moment,
        }
    }

    fn start_moves(&mut self, moves: &[&PageMove]) {
        let mut memory = self.memory.lock().expect("nobody has panicked");
        memory.start_moves(moves, &mut self.moves_rng);
    }

    fn write_log(&self, plan: &StepPlan, seqs: &Sequences) {
        let name = |seq: &Sequence| (seq.request_id(), seq.choices().start);
        let advances: HashSet<_> = plan.chunks.iter().map(|chunk| chunk.seq).collect();
        let running = seqs.iter().filter(|seq| seq.state() == SeqState::Running);
        let log = StepLog {
            running: running
                .map(|seq| (name(seq).0, name(seq).1, advances.contains(&seq.id())))
                .collect(),
            fetching: seqs
                .iter()
                .filter(|seq| matches!(seq.state(), SeqState::Fetching))
                .map(Sequence::request_id)
                .collect(),
            preempted: plan.preempted.iter().map(|id| name(&seqs[*id])).collect(),
            rows: plan.tokens(),
            rows_ahead: plan.chunks.iter().filter(|chunk| is_ahead(chunk)).count(),
            copies: plan.copies.len(),
            moves: plan.moves.len(),
            awaited: plan.awaited.len(),
            has_moves: self.memory().has_moves() || !plan.moves.is_empty(),
        };
        self.log.lock().expect("the test has not panicked").push(log);
    }
}

impl Executor for SimulatedExecutor {
    fn max_under_way(&self) -> usize {
        self.behaviour.max_under_way
    }

    /// A penalty needs all tokens so far; this device does not keep them.
    fn samples_on_device(&self, sampling: &SamplingParams) -> bool {
        sampling.repetition_penalty == 1.0
    }

    /// Pages of a simulation have no bytes.
    fn read_pages(&mut self, pages: &[PageId]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(vec![Vec::new(); pages.len()])
    }

    fn gives_embeddings(&self) -> bool {
        false
    }

    fn arrived_moves(&mut self, wait: Wait) -> Result<Vec<MoveId>, Error> {
        let mut memory = self.memory.lock().expect("nobody has panicked");
        Ok(memory.arrived(wait == Wait::ForOne, &mut self.moves_rng))
    }

    fn start(&mut self, plan: &StepPlan, seqs: &Sequences) -> Result<(), Error> {
        assert!(self.under_way.len() < self.behaviour.max_under_way, "too many under way");
        assert!(!plan.is_empty(), "nothing to do");
        self.write_log(plan, seqs);
        let (awaited, beside) = plan.awaited_moves();
        if plan.chunks.is_empty() {
            self.start_moves(&beside);
            return Ok(());
        }
        self.check_plan(plan, seqs);
        self.learn_hashes(plan, seqs);
        self.start_moves(&awaited);
        self.memory().begin_step(plan);
        self.memory().wait_for(&plan.awaited);
        for chunk in &plan.chunks {
            self.memory().read(&seqs[chunk.seq], chunk.start, &self.hashes[&chunk.seq]);
        }
        for chunk in &plan.chunks {
            self.memory().commit(&seqs[chunk.seq], chunk, &self.hashes[&chunk.seq]);
        }
        let sampled = plan.chunks.iter().filter_map(|chunk| self.sample(&seqs[chunk.seq], chunk));
        let output = StepOutput { sampled: sampled.collect(), ..StepOutput::default() };
        self.under_way.push_back(output);
        self.start_moves(&beside);
        self.started += 1;
        if self.fails(Failures::Start(self.started)) {
            return Err(self.fail());
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<StepOutput, Error> {
        assert!(!self.under_way.is_empty(), "nothing is under way");
        if self.fails(Failures::Finish(self.started + 1 - self.under_way.len())) {
            return Err(self.fail());
        }
        Ok(self.under_way.pop_front().expect("one is under way"))
    }
}

/// The token that follows `content` in output `choice` of the request.
pub fn next_token(request: &Request, choice: usize, content: u64, vocab: usize) -> TokenId {
    let seed = request.sampling().expect("it generates").seed;
    (mix(mix(seed, choice as u64), content) % vocab as u64) as TokenId
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

fn is_ahead(chunk: &Chunk) -> bool {
    chunk.input == ChunkInput::SampledBefore
}
