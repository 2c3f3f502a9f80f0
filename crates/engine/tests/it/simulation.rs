//! Whole lives of engines from a seed: random arrivals, lengths, priorities, choices, failures and
//! cancellations in pools and stores that are nearly always too small, with requests that go on
//! from what others have left. Over a million steps in all.

use std::sync::Arc;

use terrace_engine::{
    Engine, EngineConfig, Error, Events, Request, RequestId, SeqPolicy, SessionQuery,
    SessionReading,
};

use crate::simulation_executor::{Behaviour, Failures, Log, SimulatedExecutor};
use crate::simulation_invariants::InvariantChecker;
use crate::simulation_kept::KeptRequests;
use crate::simulation_load::{
    Group, random_cache, random_config, random_request, random_session, random_tiers, sampling_mut,
};
use crate::simulation_tiers::{SimulatedTier, SimulatedTiers};
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
    kept: KeptRequests,
    continued: usize,
    sessions_ended: usize,
    now_ms: u64,
}

/// What happened in many lives; zeros would mean that a test tests nothing.
#[derive(Default, Debug)]
struct Totals {
    steps: u64,
    finished: usize,
    failed: usize,
    preempted: usize,
    copies: usize,
    swaps_out: u64,
    swaps_in: u64,
    continued: usize,
    sessions_ended: usize,
    refused: usize,
    prefix_tokens_hit: u64,
    cached_tokens: u64,
    /// Rows whose token was not known when their step was started.
    rows_ahead: usize,
    awaited: usize,
    pages_demoted: u64,
    pages_promoted: u64,
    tier_pages_written: u64,
    tier_pages_read: u64,
}

impl Fixture {
    fn new(seed: u64, groups: &[Group], longest: usize, failures: Failures) -> Self {
        Fixture::with_tiers(seed, groups, longest, failures, None)
    }

    /// Over lower tiers that may have something from before.
    fn with_tiers(
        seed: u64,
        groups: &[Group],
        longest: usize,
        failures: Failures,
        tiers: Option<&[SimulatedTier]>,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let mut config = random_config(&mut rng, groups, longest);
        if let Some(tiers) = tiers {
            config = random_tiers(&mut rng, config, tiers);
        }
        let log = Log::default();
        let max_under_way = 1 + rng.below(2);
        let behaviour = Behaviour { max_under_way, failures, seed };
        let executor = SimulatedExecutor::new(&config, behaviour, Arc::clone(&log));
        let lower =
            SimulatedTiers::new(executor.shared_memory(), tiers.unwrap_or_default().to_vec(), seed);
        let (executor, lower) = (Box::new(executor), Box::new(lower));
        let engine = Engine::with_tiers(executor, lower, config.clone()).expect("a valid config");
        let checker = InvariantChecker::new(config.scheduler, max_under_way, longest);
        let kept = KeptRequests::default();
        Fixture {
            rng,
            engine,
            config,
            log,
            checker,
            longest,
            refused: 0,
            kept,
            continued: 0,
            sessions_ended: 0,
            now_ms: 0,
        }
    }

    /// Keeps what a live request will leave.
    fn keep_one(&mut self) {
        let live: Vec<_> = self.checker.live().collect();
        if !live.is_empty() {
            self.kept.keep(*self.rng.pick(&live), &mut self.engine);
        }
    }

    /// Goes on from what another has left, or releases it.
    fn continue_one(&mut self) {
        let Some((handle, past)) = self.kept.draw(&mut self.rng) else { return };
        if self.rng.below(3) == 0 {
            self.kept.release(handle, &mut self.engine);
            return;
        }
        let mut request = random_request(&mut self.rng, self.longest, 2);
        let room = self.longest.saturating_sub(past.tokens.len());
        request.prompt.truncate(room.max(1));
        let new = room.saturating_sub(request.prompt.len());
        let sampling = sampling_mut(&mut request);
        sampling.max_new_tokens = sampling.max_new_tokens.min(new);
        if let Ok(id) = self.engine.continue_from(handle, request.clone()) {
            let prompt = [&past.tokens[..], &request.prompt].concat();
            let whole = Request { prompt, cache_salt: past.request.cache_salt, ..request };
            self.submitted(id, &whole);
            self.continued += 1;
        }
    }

    fn submitted(&mut self, id: RequestId, request: &Request) {
        self.checker.submitted(id, request);
        self.kept.submitted(id, request);
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
                self.submitted(id, &request);
            }
            Err(error) => {
                assert_eq!(Some(std::mem::discriminant(&error)), why, "{error}");
                self.refused += 1;
            }
        }
    }

    /// The error that is due, by the configuration alone.
    fn why_refused(&self, request: &Request) -> Option<std::mem::Discriminant<Error>> {
        let tokens = request.most_tokens();
        let groups = self.config.kv_groups.iter().enumerate();
        let policy = request.cache.as_ref().and_then(|cache| cache.policy.as_ref());
        let step = self.config.scheduler.max_step_tokens;
        let wanted: usize = groups
            .map(|(index, group)| match (policy, group.window) {
                (Some(policy), _) => group.pages_for(policy.rules[index].slots.min(tokens)),
                (None, Some(window)) => {
                    group.pages_for(tokens).min(group.pages_for(window + step) + 1)
                }
                (None, None) => group.pages_for(tokens),
            })
            .sum();
        let longest = policy.map_or(1, SeqPolicy::longest_whole_chunk);
        let pages = self.config.pages;
        let scheduler = self.config.scheduler;
        let error = if scheduler.max_seqs < request.choices() {
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
        self.take(events);
    }

    fn end_session(&mut self) {
        let key = random_session(&mut self.rng);
        let id_of_owner = |session: &SessionReading| session.id == key.id;
        let is_there = self
            .engine
            .sessions(&SessionQuery { owner: key.owner, after: None, most: 9 })
            .iter()
            .any(id_of_owner);
        assert_eq!(self.engine.end_session(&key), is_there, "{key:?}");
        self.engine.check();
        self.sessions_ended += usize::from(is_there);
    }

    fn take(&mut self, events: Events) {
        for (id, event) in events {
            self.checker.event(id, &event);
            self.kept.event(id, &event);
        }
    }

    fn step(&mut self) {
        self.now_ms += 1;
        let events = self.engine.step_at(self.now_ms);
        self.engine.check();
        for log in self.log.lock().expect("the device has not panicked").drain(..) {
            self.checker.stepped(&log);
        }
        self.take(events);
    }

    /// Runs a whole life: arrivals in bursts and lulls, then until everyone has an output.
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
            if self.rng.below(60) == 0 {
                self.end_session();
            }
            match self.rng.below(30) {
                0 => self.keep_one(),
                1 => self.continue_one(),
                _ => {}
            }
            self.step();
        }
        while !self.engine.is_idle() {
            self.step();
        }
        self.kept.release_all(&mut self.engine);
        self.engine.check();
        assert_eq!(self.checker.live().count(), 0, "a request was left without its last event");
        let stats = self.engine.stats();
        assert_eq!(stats.pages_free, stats.pages_total, "a page leaked");
        assert_eq!(stats.store_pages_free, stats.store_pages_total, "a page of the store leaked");
        assert_eq!((stats.waiting, stats.running), (0, 0));
        assert_eq!(stats.preemptions as usize, self.checker.preempted);
        // Of those who failed or left before their first event nothing is reported.
        assert!(self.checker.cached_tokens <= stats.prefix_tokens_hit);
        totals.steps += stats.steps;
        totals.finished += self.checker.finished;
        totals.failed += self.checker.failed;
        totals.preempted += self.checker.preempted;
        totals.copies += self.checker.copies;
        totals.swaps_out += stats.swaps_out;
        totals.swaps_in += stats.swaps_in;
        totals.continued += self.continued;
        totals.sessions_ended += self.sessions_ended;
        totals.refused += self.refused;
        totals.prefix_tokens_hit += stats.prefix_tokens_hit;
        totals.cached_tokens += self.checker.cached_tokens;
        totals.rows_ahead += self.checker.rows_ahead;
        totals.awaited += self.checker.awaited;
        totals.pages_demoted += stats.pages_demoted;
        totals.pages_promoted += stats.pages_promoted;
        totals.tier_pages_written += stats.tier_pages_written;
        totals.tier_pages_read += stats.tier_pages_read;
    }
}

/// `lives` engines with such kv groups.
fn simulate(groups: &[Group], longest: usize, lives: u64) {
    let mut totals = Totals::default();
    for seed in 0..lives {
        let failures = if seed % 4 == 0 { Failures::OneIn(100) } else { Failures::Never };
        Fixture::new(seed, groups, longest, failures).live(&mut totals);
    }
    println!("{groups:?}: {totals:?}");
    assert!(lives * 1200 < totals.steps, "the engines were idle most of the time");
    let Totals { finished, failed, preempted, copies, refused, rows_ahead, continued, .. } = totals;
    let sessions = totals.sessions_ended;
    let happened = [finished, failed, preempted, copies, refused, rows_ahead, continued, sessions];
    let counted =
        [totals.swaps_out, totals.swaps_in, totals.cached_tokens, totals.prefix_tokens_hit];
    for count in happened.into_iter().chain(counted.map(|count| count as usize)) {
        assert!(0 < count, "something never happened");
    }
}

#[test]
fn pages_of_one_token() {
    simulate(&[Group::of(1)], 32, 200);
}

#[test]
fn pages_of_three_tokens() {
    simulate(&[Group::of(3)], 48, 200);
}

#[test]
fn pages_of_sixteen_tokens() {
    simulate(&[Group::of(16)], 80, 200);
}

#[test]
fn two_groups_with_pages_of_different_lengths() {
    simulate(&[Group::of(2), Group::of(5)], 40, 200);
}

#[test]
fn a_group_behind_a_window_beside_one_that_sees_all() {
    simulate(&[Group::of(4), Group { page_tokens: 3, window: Some(7) }], 40, 200);
}

/// As `simulate`, over a store that takes content and up to two tiers below it, through restarts:
/// each engine finds what those before it have left there.
fn simulate_tiers(groups: &[Group], longest: usize, lives: u64) {
    let mut totals = Totals::default();
    for seed in 0..lives {
        let mut rng = Rng::new(seed ^ 77);
        let tiers: Vec<_> = (0..rng.below(3)).map(|_| SimulatedTier::random(&mut rng)).collect();
        for restart in 0..3 {
            let failures = if rng.below(4) == 0 { Failures::OneIn(100) } else { Failures::Never };
            let seed = 1000 * restart + seed;
            println!("seed {seed}, {} tiers", tiers.len());
            Fixture::with_tiers(seed, groups, longest, failures, Some(&tiers)).live(&mut totals);
        }
    }
    println!("{groups:?}: {totals:?}");
    let Totals { pages_demoted, pages_promoted, tier_pages_written, tier_pages_read, .. } = totals;
    let happened = [pages_demoted, pages_promoted, tier_pages_written, tier_pages_read];
    assert!(happened.iter().all(|count| 100 < *count), "{happened:?}");
    // Of several tables one waits for all.
    assert_eq!(groups.len() == 1, 0 < totals.awaited, "{} moves were awaited", totals.awaited);
}

#[test]
fn tiers_and_restarts_with_pages_of_one_token() {
    simulate_tiers(&[Group::of(1)], 32, 30);
}

#[test]
fn tiers_and_restarts_with_pages_of_five_tokens() {
    simulate_tiers(&[Group::of(5)], 80, 30);
}

#[test]
fn tiers_and_restarts_with_two_groups() {
    simulate_tiers(&[Group::of(2), Group::of(5)], 40, 30);
}

#[test]
fn tiers_and_restarts_behind_a_window() {
    simulate_tiers(&[Group::of(4), Group { page_tokens: 3, window: Some(7) }], 40, 30);
}
