//! A small engine over a simulated device, with pages of four tokens, for tests that step by hand.

use std::sync::Arc;

use terrace_engine::{
    Engine, EngineConfig, Events, Request, RequestId, SchedulerConfig, TokenEvent, TokenId,
};

use crate::simulation_executor::{Behaviour, Failures, Log, SimulatedExecutor};
use crate::simulation_load::{Group, config, request, sampling_mut};

pub const SCHEDULER: SchedulerConfig =
    SchedulerConfig { max_step_tokens: 8, max_seqs: 4, max_waiting: 8, aging_steps: 10 };

pub const BEHAVIOUR: Behaviour = Behaviour { max_under_way: 1, failures: Failures::Never, seed: 0 };

pub struct Fixture {
    pub engine: Engine,
    pub log: Log,
}

impl Fixture {
    pub fn new(pages: usize, scheduler: SchedulerConfig) -> Self {
        Fixture::behaving(pages, scheduler, BEHAVIOUR)
    }

    pub fn behaving(pages: usize, scheduler: SchedulerConfig, behaviour: Behaviour) -> Self {
        Fixture::configured(config(&[Group::of(4)], pages, scheduler), behaviour)
    }

    pub fn with_store(pages: usize, store_pages: usize, scheduler: SchedulerConfig) -> Self {
        let config = config(&[Group::of(4)], pages, scheduler);
        Fixture::configured(EngineConfig { store_pages, ..config }, BEHAVIOUR)
    }

    fn configured(config: EngineConfig, behaviour: Behaviour) -> Self {
        let log = Log::default();
        let executor = SimulatedExecutor::new(&config, behaviour, Arc::clone(&log));
        Fixture { engine: Engine::new(Box::new(executor), config).expect("a valid config"), log }
    }

    pub fn submit(&mut self, request: Request) -> RequestId {
        self.engine.submit(request).expect("it can be served")
    }

    pub fn step(&mut self) -> Events {
        let events = self.engine.step();
        self.engine.check();
        events
    }

    pub fn run_until_idle(&mut self) -> Events {
        let mut events = Vec::new();
        while !self.engine.is_idle() {
            events.extend(self.step());
        }
        events
    }

    /// As `run_until_idle`; afterwards nothing may hold a page.
    pub fn run(&mut self) -> Events {
        let events = self.run_until_idle();
        let stats = self.engine.stats();
        assert_eq!(stats.pages_free, stats.pages_total, "a page leaked");
        events
    }

    /// Rows of each step so far.
    pub fn rows(&self) -> Vec<usize> {
        let log = self.log.lock().expect("the device has not panicked");
        log.iter().map(|log| log.rows).collect()
    }
}

/// A request that asks for `new` tokens after a prompt of `prompt` tokens like `first`.
pub fn ask(first: TokenId, prompt: usize, new: usize) -> Request {
    let mut request = request(&vec![first; prompt]);
    sampling_mut(&mut request).max_new_tokens = new;
    request
}

/// The requests in the order of their first tokens.
pub fn order(events: &Events) -> Vec<RequestId> {
    let mut order = Vec::new();
    for (id, event) in events {
        if matches!(event, TokenEvent::Token { .. }) && !order.contains(id) {
            order.push(*id);
        }
    }
    order
}
