//! Two steps under way: who goes on before its token is known, and what becomes of a row that was
//! started for nothing.

use std::collections::BTreeMap;

use terrace_engine::{
    Engine, Events, Failure, FinishReason, Request, RequestId, SchedulerConfig, TokenEvent,
};
use terrace_testkit::Rng;

use crate::fixture::{BEHAVIOUR, Fixture, SCHEDULER, ask, order};
use crate::simulation_executor::{Behaviour, Failures, Log, SimulatedExecutor};
use crate::simulation_load::{Group, expected_events, random_config, random_request, sampling_mut};

const TWO: Behaviour = Behaviour { max_under_way: 2, ..BEHAVIOUR };

fn fixture() -> Fixture {
    Fixture::behaving(40, SCHEDULER, TWO)
}

/// A request whose tokens the host must sample.
fn ask_host(prompt: usize, new: usize) -> Request {
    let mut request = ask(2, prompt, new);
    sampling_mut(&mut request).repetition_penalty = 1.5;
    request
}

/// A request that stops early, and how many tokens it gets.
fn ask_stopping(prompt: usize) -> (Request, usize) {
    let mut request = ask(1, prompt, 50);
    sampling_mut(&mut request).stop_ids = vec![0, 1, 2];
    let tokens = expected_events(&request, 0).len() - 1;
    assert!((2..50).contains(&tokens), "it stops neither at once nor by its length");
    (request, tokens)
}

/// Rows of each step so far whose token was not known when the step was started.
fn rows_ahead(fixture: &Fixture) -> Vec<usize> {
    let log = fixture.log.lock().expect("the device has not panicked");
    log.iter().map(|log| log.rows_ahead).collect()
}

fn finished(id: RequestId, reason: FinishReason) -> (RequestId, TokenEvent) {
    (id, TokenEvent::Finished { choice: 0, reason })
}

#[test]
fn a_step_is_started_before_the_token_it_goes_on_from_is_known() {
    let mut fixture = fixture();
    let id = fixture.submit(ask(1, 2, 4));
    let mut events = fixture.step();
    assert_eq!(events.len(), 1, "only the first step has ended");
    assert_eq!(fixture.rows(), [2, 1]);
    events.extend(fixture.run());
    assert_eq!(rows_ahead(&fixture), [0, 1, 1, 1], "nothing is started past the known length");
    let expected = expected_events(&ask(1, 2, 4), 0).into_iter().map(|event| (id, event));
    assert_eq!(events, expected.collect::<Vec<_>>());
}

#[test]
fn chunks_of_a_prompt_are_started_one_upon_the_other() {
    let mut fixture = fixture();
    fixture.submit(ask(1, 30, 1));
    assert_eq!(fixture.step(), []);
    assert_eq!(fixture.rows(), [8, 8]);
    fixture.run();
    assert_eq!(fixture.rows(), [8, 8, 8, 6]);
}

#[test]
fn who_arrives_is_in_the_next_step_that_is_started() {
    let mut fixture = fixture();
    fixture.submit(ask(1, 2, 9));
    fixture.step();
    fixture.submit(ask(2, 5, 1));
    fixture.step();
    assert_eq!(fixture.rows(), [2, 1, 6]);
    fixture.run();
}

#[test]
fn a_stop_drops_the_row_that_was_started_after_it() {
    let mut fixture = fixture();
    let (request, tokens) = ask_stopping(4);
    let id = fixture.submit(request.clone());
    let events: Events = (0..tokens).flat_map(|_| fixture.step()).collect();
    let expected = expected_events(&request, 0).into_iter().map(|event| (id, event));
    assert_eq!(events, expected.collect::<Vec<_>>());
    let stats = fixture.engine.stats();
    assert_eq!(stats.pages_free, stats.pages_total, "pages are freed with the stop");
    assert!(!fixture.engine.is_idle(), "a step is under way");
    assert_eq!(fixture.step(), [], "the dropped row says nothing");
    assert!(fixture.engine.is_idle());
    let stats = fixture.engine.stats();
    assert_eq!((stats.generated_tokens, stats.steps), (tokens as u64, tokens as u64 + 1));
}

#[test]
fn pages_of_a_dropped_row_are_taken_while_its_step_is_under_way() {
    let (request, tokens) = ask_stopping(4);
    // One at a time, and the second's prompt needs all pages but one.
    let mut fixture = Fixture::behaving(18, SchedulerConfig { max_seqs: 1, ..SCHEDULER }, TWO);
    fixture.submit(request);
    let second = fixture.submit(ask(3, 68, 4));
    let events: Events = (0..tokens + 1).flat_map(|_| fixture.step()).collect();
    assert_eq!(order(&events).len(), 1);
    assert_eq!(fixture.rows()[tokens + 1..], [8], "it was started beside the dropped row");
    let events = fixture.run();
    let expected = expected_events(&ask(3, 68, 4), 0).into_iter().map(|event| (second, event));
    assert_eq!(events, expected.collect::<Vec<_>>());
}

#[test]
fn cancelling_frees_everything_while_steps_are_under_way() {
    let mut fixture = fixture();
    let id = fixture.submit(ask(1, 30, 10));
    fixture.step();
    fixture.submit(ask(2, 3, 10));
    fixture.step();
    assert_eq!(fixture.engine.cancel(id), [finished(id, FinishReason::Cancelled)]);
    fixture.engine.check();
    let other = fixture.run();
    assert!(other.iter().all(|(event_of, _)| *event_of != id), "{other:?}");
    // Two chunks of eight had ended before the cancellation; the third was under way.
    let hit = fixture.engine.stats().prefix_tokens_hit;
    fixture.submit(ask(1, 30, 1));
    fixture.run();
    assert_eq!(
        fixture.engine.stats().prefix_tokens_hit - hit,
        16,
        "what is known has been computed"
    );
}

#[test]
fn choices_run_ahead_when_they_are_apart() {
    let mut fixture = fixture();
    let mut request = ask(1, 3, 5);
    sampling_mut(&mut request).choices = 3;
    let id = fixture.submit(request.clone());
    let mut events = fixture.step();
    assert_eq!(fixture.rows(), [3], "a fork waits for its tokens");
    events.extend(fixture.step());
    assert_eq!(rows_ahead(&fixture), [0, 0, 3]);
    let cancelled = TokenEvent::Finished { choice: 1, reason: FinishReason::Cancelled };
    assert_eq!(fixture.engine.cancel_choice(id, 1), [(id, cancelled)]);
    fixture.engine.check();
    events.extend(fixture.run());
    for (choice, tokens) in [(0, 6), (1, 2), (2, 6)] {
        let mut expected = expected_events(&request, choice);
        expected.truncate(tokens);
        let is_of_choice = |event: &TokenEvent| match event {
            TokenEvent::Token { choice: of, .. } | TokenEvent::Finished { choice: of, .. } => {
                *of == choice
            }
            TokenEvent::CachedPrompt { .. }
            | TokenEvent::Prompt(_)
            | TokenEvent::Embedding(_)
            | TokenEvent::Cache(_)
            | TokenEvent::Replay { .. } => false,
        };
        let found = events.iter().map(|(_, event)| event.clone()).filter(is_of_choice);
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_few_that_the_host_must_sample_miss_every_second_step() {
    let mut fixture = fixture();
    for request in [ask(1, 1, 8), ask(1, 1, 8), ask_host(1, 4)] {
        fixture.submit(request);
    }
    fixture.run();
    assert_eq!(fixture.rows(), [3, 2, 3, 2, 3, 2, 3, 2]);
}

#[test]
fn when_most_are_sampled_on_the_host_nobody_misses_a_step() {
    let mut fixture = fixture();
    for request in [ask(1, 1, 4), ask_host(1, 4), ask_host(1, 4)] {
        fixture.submit(request);
    }
    fixture.step();
    assert_eq!(fixture.rows(), [3]);
    fixture.run();
    assert_eq!(fixture.rows(), [3, 3, 3, 3]);
}

#[track_caller]
fn loses_both_steps(failures: Failures) {
    let mut fixture = Fixture::behaving(
        40,
        SchedulerConfig { max_seqs: 2, ..SCHEDULER },
        Behaviour { failures, ..TWO },
    );
    // The first fills a step with its prompt; the second begins beside its first token.
    let lost = [ask(1, 8, 9), ask(2, 7, 9)].map(|request| fixture.submit(request));
    let spared = fixture.submit(ask(3, 4, 3));
    assert_eq!(fixture.step(), lost.map(|id| finished(id, FinishReason::Failed(Failure::Step))));
    assert_eq!(fixture.engine.stats().pages_cached, 0, "what was lost is not known");
    let expected = expected_events(&ask(3, 4, 3), 0).into_iter().map(|event| (spared, event));
    assert_eq!(fixture.run(), expected.collect::<Vec<_>>());
}

#[test]
fn an_error_ends_the_sequences_of_both_steps_under_way() {
    loses_both_steps(Failures::Start(2));
    loses_both_steps(Failures::Finish(1));
}

#[test]
fn an_error_after_a_stop_ends_nothing_twice() {
    let (request, tokens) = ask_stopping(4);
    let failures = Failures::Finish(tokens + 1);
    let mut fixture = Fixture::behaving(40, SCHEDULER, Behaviour { failures, ..TWO });
    fixture.submit(request.clone());
    let events = fixture.run();
    assert_eq!(events.len(), expected_events(&request, 0).len());
}

/// The outputs of random requests that arrive at random steps.
fn outputs(seed: u64, max_under_way: usize) -> BTreeMap<(RequestId, usize), Vec<TokenEvent>> {
    let mut rng = Rng::new(seed);
    let mut config = random_config(&mut rng, &[Group::of(3)], 48);
    config.scheduler.max_waiting = 1000;
    let behaviour = Behaviour { max_under_way, ..BEHAVIOUR };
    let executor = SimulatedExecutor::new(&config, behaviour, Log::default());
    let mut engine = Engine::new(Box::new(executor), config).expect("a valid config");
    let mut outputs = BTreeMap::<_, Vec<_>>::new();
    for step in 0.. {
        if step < 60 && rng.below(3) == 0 {
            // Those that can never be served are refused in both engines.
            let _ = engine.submit(random_request(&mut rng, 48, 4));
        }
        if 60 <= step && engine.is_idle() {
            break;
        }
        for (id, event) in engine.step() {
            let choice = match event {
                TokenEvent::Token { choice, .. } | TokenEvent::Finished { choice, .. } => choice,
                // What is found in the cache follows from who ran before.
                TokenEvent::CachedPrompt { .. } => continue,
                TokenEvent::Prompt(_)
                | TokenEvent::Embedding(_)
                | TokenEvent::Cache(_)
                | TokenEvent::Replay { .. } => 0,
            };
            outputs.entry((id, choice)).or_default().push(event);
        }
    }
    outputs
}

#[test]
fn outputs_do_not_depend_on_how_many_steps_are_under_way() {
    let mut stops = 0;
    for seed in 0..200 {
        let one_by_one = outputs(seed, 1);
        assert_eq!(one_by_one, outputs(seed, 2), "seed {seed}");
        let ends = one_by_one.values().filter_map(|events| events.last());
        let is_stop = |end: &&TokenEvent| {
            matches!(end, TokenEvent::Finished { reason: FinishReason::Stop(_), .. })
        };
        stops += ends.filter(is_stop).count();
    }
    assert!(500 < stops, "{stops} outputs ended with a stop token");
}
