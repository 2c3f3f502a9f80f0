//! An engine on its own thread: submitting, cancelling by dropping, stopping, dying.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use terrace_cache::{MoveId, PageId};
use terrace_engine::{
    Engine, EngineHandle, Error, Executor, Failure, FinishReason, Request, SamplingParams,
    SchedulerConfig, SeqCache, Sequences, Shutdown, StepOutput, StepPlan, TokenEvent,
    TokenReceiver,
};
use terrace_tiers::Wait;

use crate::simulation_executor::{Behaviour, Failures, Log, SimulatedExecutor};
use crate::simulation_load::{Group, config, expected_events, request, sampling_mut};

const SCHEDULER: SchedulerConfig =
    SchedulerConfig { max_step_tokens: 8, max_seqs: 4, max_waiting: 2, aging_steps: 10 };

/// Waits for leave before a step is finished, until the leaver is gone; may panic instead. Has no
/// room for caches that requests bring.
struct GatedExecutor {
    inner: SimulatedExecutor,
    gate: Receiver<Leave>,
}

enum Leave {
    Step,
    Panic,
}

impl Executor for GatedExecutor {
    fn max_under_way(&self) -> usize {
        self.inner.max_under_way()
    }

    fn samples_on_device(&self, sampling: &SamplingParams) -> bool {
        self.inner.samples_on_device(sampling)
    }

    fn gives_embeddings(&self) -> bool {
        false
    }

    fn prepare(&mut self, _cache: &SeqCache) -> Result<(), Error> {
        Err(Error::Step("no room".into()))
    }

    fn start(&mut self, plan: &StepPlan, seqs: &Sequences) -> Result<(), Error> {
        self.inner.start(plan, seqs)
    }

    fn finish(&mut self) -> Result<StepOutput, Error> {
        if let Ok(Leave::Panic) = self.gate.recv() {
            panic!("as the test wants");
        }
        self.inner.finish()
    }

    fn arrived_moves(&mut self, wait: Wait) -> Result<Vec<MoveId>, Error> {
        self.inner.arrived_moves(wait)
    }

    fn read_pages(&mut self, pages: &[PageId]) -> Result<Vec<Vec<u8>>, Error> {
        self.inner.read_pages(pages)
    }
}

fn spawn(max_under_way: usize) -> (EngineHandle, Sender<Leave>) {
    let config = config(&[Group::of(4)], 300, SCHEDULER);
    let (leave, gate) = channel();
    let behaviour = Behaviour { max_under_way, failures: Failures::Never, seed: 0 };
    let inner = SimulatedExecutor::new(&config, behaviour, Log::default());
    let executor = Box::new(GatedExecutor { inner, gate });
    let engine = Engine::new(executor, config).expect("a valid config");
    (EngineHandle::spawn(engine), leave)
}

/// One that runs step by step, and one that has two steps under way.
fn engines() -> [(EngineHandle, Sender<Leave>); 2] {
    [1, 2].map(spawn)
}

fn ask(new: usize) -> Request {
    let mut request = request(&[1, 2, 3]);
    sampling_mut(&mut request).max_new_tokens = new;
    request
}

/// With two choices.
fn ask_for_two(new: usize) -> Request {
    let mut request = ask(new);
    sampling_mut(&mut request).choices = 2;
    request
}

fn rest(receiver: &mut TokenReceiver) -> Vec<TokenEvent> {
    std::iter::from_fn(|| receiver.blocking_recv()).collect()
}

#[test]
fn events_come_in_order_to_any_thread() {
    for (handle, leave) in engines() {
        drop(leave);
        let ask_two = |handle: EngineHandle| {
            for _ in 0..2 {
                let mut receiver = handle.submit(ask(5)).unwrap();
                assert_eq!(rest(&mut receiver), expected_events(&ask(5), 0));
            }
        };
        let (first, second) = (handle.clone(), handle.clone());
        let other = std::thread::spawn(move || ask_two(first));
        ask_two(second);
        other.join().unwrap();
        handle.shutdown(Shutdown::Drain);
        let stats = handle.stats();
        assert_eq!((stats.generated_tokens, stats.waiting, stats.running), (20, 0, 0));
    }
}

#[test]
fn a_cache_without_room_on_the_device_fails_its_request_alone() {
    for (handle, leave) in engines() {
        drop(leave);
        let groups = config(&[Group::of(4)], 300, SCHEDULER).kv_groups;
        let cache = Some(Arc::new(SeqCache::whole(groups)));
        let mut refused = handle.submit(Request { cache, ..ask(5) }).unwrap();
        let mut served = handle.submit(ask(5)).unwrap();
        let reason = FinishReason::Failed(Failure::NoRoomForCache);
        assert_eq!(rest(&mut refused), [TokenEvent::Finished { choice: 0, reason }]);
        assert_eq!(rest(&mut served), expected_events(&ask(5), 0));
    }
}

#[tokio::test]
async fn events_can_be_awaited() {
    for (handle, leave) in engines() {
        drop(leave);
        let mut receiver = handle.submit(ask(3)).unwrap();
        let mut events = Vec::new();
        while let Some(event) = receiver.recv().await {
            events.push(event);
        }
        assert_eq!(events, expected_events(&ask(3), 0));
    }
}

#[test]
fn bad_requests_are_refused_without_asking_the_engine() {
    for (handle, _leave) in engines() {
        // The engine is held at its first step, and yet refusals come.
        let _receiver = handle.submit(ask(5)).unwrap();
        assert!(matches!(handle.submit(request(&[])), Err(Error::EmptyPrompt)));
        assert!(matches!(handle.submit(ask(998)), Err(Error::ContextTooLong { tokens: 1001, .. })));
        let _second = handle.submit(ask(5)).unwrap();
        assert!(matches!(handle.submit(ask(5)), Err(Error::QueueFull { waiting: 2, limit: 2 })));
        assert_eq!(handle.stats().waiting, 2);
    }
}

#[test]
fn requests_submitted_together_start_in_one_step() {
    for (handle, leave) in engines() {
        let mut receivers = handle.submit_all(vec![ask(5), ask(5)]).unwrap();
        assert!(matches!(handle.submit_all(vec![ask(5)]), Err(Error::QueueFull { .. })));
        // The engine may do one step, and both have a token.
        leave.send(Leave::Step).unwrap();
        let firsts = receivers.iter_mut().map(|receiver| receiver.blocking_recv().unwrap());
        assert!(firsts.into_iter().all(|event| matches!(event, TokenEvent::Token { .. })));
    }
}

#[test]
fn requests_submitted_together_are_all_taken_or_none() {
    for (handle, leave) in engines() {
        assert!(handle.submit_all(vec![ask(5), request(&[])]).is_err());
        assert!(handle.submit_all(vec![ask(5), ask(5), ask(5)]).is_err());
        drop(leave);
        handle.shutdown(Shutdown::Drain);
        assert_eq!(handle.stats().generated_tokens, 0);
    }
}

#[test]
fn dropping_the_receiver_cancels_the_request() {
    for (handle, leave) in engines() {
        let mut receiver = handle.submit(ask(900)).unwrap();
        leave.send(Leave::Step).unwrap();
        receiver.blocking_recv().unwrap();
        drop(receiver);
        drop(leave);
        handle.shutdown(Shutdown::Drain);
        let stats = handle.stats();
        assert!(stats.generated_tokens < 900, "it went on for {} tokens", stats.generated_tokens);
        assert_eq!(stats.pages_free, stats.pages_total);
    }
}

#[test]
fn draining_finishes_what_runs_and_takes_nothing_new() {
    for (handle, leave) in engines() {
        let mut receiver = handle.submit(ask(50)).unwrap();
        let stopping = handle.clone();
        let stop = std::thread::spawn(move || stopping.shutdown(Shutdown::Drain));
        // Until the other thread has begun to stop, requests are taken, and dropped at once.
        while !matches!(handle.submit(ask(1)), Err(Error::Stopped)) {
            std::thread::yield_now();
        }
        assert!(handle.is_running());
        drop(leave);
        assert_eq!(rest(&mut receiver), expected_events(&ask(50), 0));
        stop.join().unwrap();
        assert!(!handle.is_running());
    }
}

#[test]
fn stopping_now_cancels_what_is_unfinished() {
    for (handle, leave) in engines() {
        let mut receiver = handle.submit(ask_for_two(900)).unwrap();
        leave.send(Leave::Step).unwrap();
        let first = [receiver.blocking_recv(), receiver.blocking_recv()];
        assert!(first.iter().all(|event| matches!(event, Some(TokenEvent::Token { .. }))));
        leave.send(Leave::Step).unwrap();
        drop(leave);
        handle.shutdown(Shutdown::Now);
        let rest = rest(&mut receiver);
        let end = |choice| TokenEvent::Finished { choice, reason: FinishReason::Cancelled };
        assert_eq!(rest[rest.len() - 2..], [end(0), end(1)]);
        assert_eq!(handle.stats().pages_free, 300);
    }
}

#[test]
fn the_last_to_go_waits_for_the_thread() {
    for (handle, leave) in engines() {
        let mut receiver = handle.submit(ask(2)).unwrap();
        drop(handle);
        for _ in 0..8 {
            leave.send(Leave::Step).unwrap();
        }
        assert_eq!(rest(&mut receiver), expected_events(&ask(2), 0), "it still runs");
        drop(receiver);
        assert!(leave.send(Leave::Step).is_err(), "the executor is gone");
    }
}

#[test]
fn a_dead_engine_fails_its_requests_and_takes_no_more() {
    for (handle, leave) in engines() {
        let mut receiver = handle.submit(ask_for_two(5)).unwrap();
        leave.send(Leave::Step).unwrap();
        leave.send(Leave::Panic).unwrap();
        let events = rest(&mut receiver);
        let failed =
            |choice| TokenEvent::Finished { choice, reason: FinishReason::Failed(Failure::Step) };
        assert_eq!(events.len(), 4);
        assert_eq!(events[2..], [failed(0), failed(1)]);
        handle.shutdown(Shutdown::Now);
        assert!(!handle.is_running());
        assert!(matches!(handle.submit(ask(1)), Err(Error::Stopped)));
    }
}
