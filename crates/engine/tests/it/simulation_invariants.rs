//! Watches an engine from outside and holds it to its promises: the right tokens for everyone,
//! nobody overtaken against the rules, the first in rank always advancing, a bounded wait.

use std::collections::{BTreeMap, BTreeSet};

use terrace_engine::{FinishReason, Request, RequestId, SchedulerConfig, TokenEvent};

use crate::simulation_executor::StepLog;
use crate::simulation_load::{expected_events, expected_prompt};
use crate::simulation_memory::LONGEST_MOVE;

/// Smaller goes first: the arrival in steps, less what the priority is worth, then the order.
type Rank = (i64, RequestId);

pub struct InvariantChecker {
    scheduler: SchedulerConfig,
    max_under_way: usize,
    /// Most tokens of one sequence.
    longest: usize,
    live: BTreeMap<RequestId, Watched>,
    running: BTreeSet<(Rank, usize)>,
    /// Who advanced in the last step.
    advanced: BTreeSet<(Rank, usize)>,
    step: u64,
    pub finished: usize,
    pub failed: usize,
    pub preempted: usize,
    pub copies: usize,
    pub moves: usize,
    /// Moves that a step waited for.
    pub awaited: usize,
    pub rows_ahead: usize,
    /// Tokens of prompts that were reported as found in the prefix cache.
    pub cached_tokens: u64,
}

struct Watched {
    rank: Rank,
    arrival_step: u64,
    choices: usize,
    has_started: bool,
    prompt_tokens: usize,
    has_events: bool,
    /// Sequences with a better rank that were there at any time since the arrival.
    outranked_by: usize,
    prompt_report: Option<TokenEvent>,
    /// What each unfinished choice has still to report, the last event first.
    expected: BTreeMap<usize, Vec<TokenEvent>>,
}

impl InvariantChecker {
    pub fn new(scheduler: SchedulerConfig, max_under_way: usize, longest: usize) -> Self {
        InvariantChecker {
            scheduler,
            max_under_way,
            longest,
            live: BTreeMap::new(),
            running: BTreeSet::new(),
            advanced: BTreeSet::new(),
            step: 0,
            finished: 0,
            failed: 0,
            preempted: 0,
            copies: 0,
            moves: 0,
            awaited: 0,
            rows_ahead: 0,
            cached_tokens: 0,
        }
    }

    pub fn live(&self) -> impl ExactSizeIterator<Item = RequestId> {
        self.live.keys().copied()
    }

    pub fn submitted(&mut self, id: RequestId, request: &Request) {
        let credit = i64::from(request.priority.0) * i64::from(self.scheduler.aging_steps);
        let rank = (self.step as i64 - credit, id);
        let choices = request.choices();
        let mut outranked_by = 0;
        for other in self.live.values_mut() {
            if rank < other.rank {
                other.outranked_by += choices;
            } else {
                outranked_by += other.choices;
            }
        }
        let reversed = |choice| expected_events(request, choice).into_iter().rev().collect();
        let watched = Watched {
            rank,
            arrival_step: self.step,
            choices,
            has_started: false,
            prompt_tokens: request.prompt.len(),
            has_events: false,
            outranked_by,
            prompt_report: expected_prompt(request),
            expected: (0..choices).map(|choice| (choice, reversed(choice))).collect(),
        };
        self.live.insert(id, watched);
    }

    /// A plan was started. Its log is checked against the ranks; its events come afterwards.
    pub fn stepped(&mut self, log: &StepLog) {
        let is_step = 0 < log.rows;
        self.step += u64::from(is_step);
        self.preempted += log.preempted.len();
        self.copies += log.copies;
        self.moves += log.moves;
        self.awaited += log.awaited;
        self.rows_ahead += log.rows_ahead;
        let key = |request: &RequestId, choice: usize| (self.live[request].rank, choice);
        let advances = log.running.iter().filter(|(_, _, advances)| *advances);
        let advances: BTreeSet<_> = advances.map(|(id, choice, _)| key(id, *choice)).collect();
        let running = log.running.iter().map(|(id, choice, _)| key(id, *choice));
        let first = running.min();
        // It may miss a step that is started before its token is known, and those that are run
        // while the pages that it needs are on their way.
        let has_advanced = first.is_some_and(|first| self.advanced.contains(&first));
        let may_miss = log.has_moves || !is_step || (1 < self.max_under_way && has_advanced);
        let advances_now = first.is_none_or(|first| advances.contains(&first));
        assert!(advances_now || may_miss, "{first:?} does not advance");

        let running = log.running.iter().map(|(request, choice, _)| key(request, *choice));
        let running: BTreeSet<_> = running.collect();
        let victims: Vec<_> = log.preempted.iter().map(|(id, choice)| key(id, *choice)).collect();
        for victim in &victims {
            let stayed = self.running.iter().filter(|key| !victims.contains(key));
            assert!(stayed.max() < Some(victim), "{victim:?} was preempted before its turn");
        }
        self.running = running;
        if is_step {
            self.advanced = advances;
        }

        self.check_order(log);
    }

    /// Nobody starts while one of better rank waits to.
    fn check_order(&mut self, log: &StepLog) {
        let mut newest = None;
        let running = log.running.iter().map(|(request, _, _)| request);
        for request in running.chain(&log.fetching) {
            let watched = self.live.get_mut(request).expect("only live requests run");
            if !std::mem::replace(&mut watched.has_started, true) {
                newest = newest.max(Some(watched.rank));
            }
        }
        let waiting = self.live.values().filter(|watched| !watched.has_started);
        if let Some(rank) = waiting.map(|watched| watched.rank).min() {
            assert!(newest < Some(rank), "{rank:?} was overtaken by {newest:?}");
        }
    }

    pub fn event(&mut self, id: RequestId, event: &TokenEvent) {
        let watched = self.live.get_mut(&id).expect("events come before the last one");
        let is_first = !std::mem::replace(&mut watched.has_events, true);
        match event {
            TokenEvent::CachedPrompt { tokens } => {
                assert!(is_first, "{id:?}: what was cached comes once, and first");
                assert!((1..watched.prompt_tokens).contains(tokens), "{id:?}: {tokens} cached");
                self.cached_tokens += *tokens as u64;
            }
            TokenEvent::Embedding(_) | TokenEvent::Replay { .. } | TokenEvent::Cache(_) => {
                panic!("the simulation gives no embeddings, no logs and no traces")
            }
            TokenEvent::Prompt(_) => {
                assert_eq!(watched.prompt_report.take().as_ref(), Some(event));
            }
            TokenEvent::Token { choice, .. } => {
                assert_eq!(watched.prompt_report, None, "the prompt's report comes first");
                let expected = watched.expected.get_mut(choice).and_then(Vec::pop);
                assert_eq!(expected.as_ref(), Some(event), "{id:?}");
            }
            TokenEvent::Finished { choice, reason } => {
                let expected = watched.expected.remove(choice).expect("a choice ends once");
                match reason {
                    FinishReason::Cancelled => {}
                    FinishReason::Failed(_) => self.failed += 1,
                    FinishReason::Stop(_) | FinishReason::Length => {
                        assert_eq!(expected, std::slice::from_ref(event), "{id:?}");
                        self.finished += 1;
                    }
                }
                self.running.remove(&(watched.rank, *choice));
                if watched.expected.is_empty() {
                    self.check_wait(id);
                }
            }
        }
    }

    /// The bound of the scheduler's module comment.
    fn check_wait(&mut self, id: RequestId) {
        let watched = self.live.remove(&id).expect("it was live");
        let steps = self.step - watched.arrival_step;
        let seqs = watched.outranked_by + watched.choices;
        let steps_of_one = self.longest * self.max_under_way * (1 + LONGEST_MOVE);
        let bound = seqs * (self.scheduler.max_seqs + 1) * steps_of_one;
        assert!(steps <= bound as u64, "{id:?} took {steps} steps, the bound is {bound}");
    }
}
