//! Whole lives of engines from a seed: random arrivals, lengths, priorities, choices, failures and
//! cancellations in pools that are nearly always too small. Over a million steps in all.

use std::sync::Arc;

use terrace_engine::{Engine, EngineConfig, Error, Request, SeqPolicy};

use crate::simulation_executor::{Behaviour, Failures, Log, SimulatedExecutor};
use crate::simulation_invariants::InvariantChecker;
use crate::simulation_load::{random_cache, random_config, random_request};
use terrace_testkit::Rng;

const STEPS_WITH_ARRIVALS: usize = 1500;

struct Fixture {
    rng: Rng,
    engine: Engine,
    config: EngineConfig,
    log: Log,
    checker: InvariantChecker,
    longest: usize,
    refused: usize,
}

/// What happened in many lives; zeros would mean that a test tests nothing.
#[derive(Default, Debug)]
struct Totals {
    steps: u64,
    finished: usize,
    failed: usize,
    preempted: usize,
    copies: usize,
    moves_out: usize,
    refused: usize,
    prefix_tokens_hit: u64,
    cached_tokens: u64,
    /// Rows whose token was not known when their step was started.
    rows_ahead: usize,
}

impl Fixture {
    fn new(seed: u64, page_tokens: &[usize], longest: usize, failures: Failures) -> Self {
        let mut rng = Rng::new(seed);
        let config = random_config(&mut rng, page_tokens, longest);
        let log = Log::default();
        let max_under_way = 1 + rng.below(2);
        let behaviour = Behaviour { max_under_way, failures, seed };
        let executor = SimulatedExecutor::new(&config, behaviour, Arc::clone(&log));
        let engine = Engine::new(Box::new(executor), config.clone()).expect("a valid config");
        let checker = InvariantChecker::new(config.scheduler, max_under_way, longest);
        Fixture { rng, engine, config, log, checker, longest, refused: 0 }
    }

    fn submit(&mut self) {
        let mut request = random_request(&mut self.rng, self.longest, 4);
        if self.rng.below(3) == 0 {
            let groups = &self.config.kv_groups;
            request.cache = Some(random_cache(&mut self.rng, groups, request.prompt.len()));
        }
        let why = self.why_refused(&request);
        match self.engine.submit(request.clone()) {
            Ok(id) => {
                assert_eq!(why, None, "it should have been refused");
                self.checker.submitted(id, &request);
            }
            Err(error) => {
                assert_eq!(Some(std::mem::discriminant(&error)), why, "{error}");
                self.refused += 1;
            }
        }
    }

    /// The error that is due, by the configuration alone.
    fn why_refused(&self, request: &Request) -> Option<std::mem::Discriminant<Error>> {
        let tokens = request.prompt.len() + request.sampling.max_new_tokens;
        let groups = self.config.kv_groups.iter().enumerate();
        let policy = request.cache.as_ref().and_then(|cache| cache.policy.as_ref());
        let slots = |group: usize| policy.map_or(tokens, |it| it.rules[group].slots.min(tokens));
        let wanted: usize =
            groups.map(|(index, group)| slots(index).div_ceil(group.page_tokens())).sum();
        let longest = policy.map_or(1, SeqPolicy::longest_whole_chunk);
        let pages = self.config.pages;
        let scheduler = self.config.scheduler;
        let error = if scheduler.max_seqs < request.sampling.choices {
            Error::BadOption { option: "n", value: String::new(), rule: String::new() }
        } else if pages < wanted {
            Error::NeverFits { wanted, pages, page_tokens: 1 }
        } else if scheduler.max_step_tokens.saturating_sub(scheduler.max_seqs).max(1) < longest {
            Error::ChunkTooLong { longest, limit: 0 }
        } else if scheduler.max_waiting <= self.engine.stats().waiting {
            Error::QueueFull { waiting: 0, limit: 0 }
        } else {
            return None;
        };
        Some(std::mem::discriminant(&error))
    }

    fn cancel_one(&mut self) {
        let live: Vec<_> = self.checker.live().collect();
        if live.is_empty() {
            return;
        }
        let id = *self.rng.pick(&live);
        let events = match self.rng.below(2) {
            0 => self.engine.cancel(id),
            _ => self.engine.cancel_choice(id, self.rng.below(3)),
        };
        self.engine.check();
        for (id, event) in events {
            self.checker.event(id, &event);
        }
    }

    fn step(&mut self) {
        let events = self.engine.step();
        self.engine.check();
        for log in self.log.lock().expect("the device has not panicked").drain(..) {
            self.checker.stepped(&log);
        }
        for (id, event) in events {
            self.checker.event(id, &event);
        }
    }

    /// Runs a whole life: arrivals in bursts and lulls, then until everyone has an answer.
    fn live(mut self, totals: &mut Totals) {
        for _ in 0..STEPS_WITH_ARRIVALS {
            let arrivals = match self.rng.below(40) {
                0 => self.rng.below(8),
                1..6 => 1,
                _ => 0,
            };
            (0..arrivals).for_each(|_| self.submit());
            if self.rng.below(40) == 0 {
                self.cancel_one();
            }
            self.step();
        }
        while !self.engine.is_idle() {
            self.step();
        }
        assert_eq!(self.checker.live().count(), 0, "a request was left without its last event");
        let stats = self.engine.stats();
        assert_eq!(stats.pages_free, stats.pages_total, "a page leaked");
        assert_eq!((stats.waiting, stats.running), (0, 0));
        assert_eq!(stats.preemptions as usize, self.checker.preempted);
        // Of those who failed or left before their first event nothing is reported.
        assert!(self.checker.cached_tokens <= stats.prefix_tokens_hit);
        totals.steps += stats.steps;
        totals.finished += self.checker.finished;
        totals.failed += self.checker.failed;
        totals.preempted += self.checker.preempted;
        totals.copies += self.checker.copies;
        totals.moves_out += self.checker.moves_out;
        totals.refused += self.refused;
        totals.prefix_tokens_hit += stats.prefix_tokens_hit;
        totals.cached_tokens += self.checker.cached_tokens;
        totals.rows_ahead += self.checker.rows_ahead;
    }
}

/// `lives` engines whose kv groups have pages of `page_tokens`.
fn simulate(page_tokens: &[usize], longest: usize, lives: u64) {
    let mut totals = Totals::default();
    for seed in 0..lives {
        let failures = if seed % 4 == 0 { Failures::OneIn(100) } else { Failures::Never };
        Fixture::new(seed, page_tokens, longest, failures).live(&mut totals);
    }
    println!("pages of {page_tokens:?} tokens: {totals:?}");
    assert!(lives * 1200 < totals.steps, "the engines were idle most of the time");
    let Totals { finished, failed, preempted, copies, refused, rows_ahead, .. } = totals;
    let prefix_tokens_hit = totals.prefix_tokens_hit as usize;
    let happened = [finished, failed, preempted, copies, refused, rows_ahead, prefix_tokens_hit];
    for count in happened.into_iter().chain([totals.moves_out, totals.cached_tokens as usize]) {
        assert!(0 < count, "something never happened");
    }
}

#[test]
fn pages_of_one_token() {
    simulate(&[1], 32, 200);
}

#[test]
fn pages_of_three_tokens() {
    simulate(&[3], 48, 200);
}

#[test]
fn pages_of_sixteen_tokens() {
    simulate(&[16], 80, 200);
}

#[test]
fn two_groups_with_pages_of_different_lengths() {
    simulate(&[2, 5], 40, 200);
}
