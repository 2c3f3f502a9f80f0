//! What the engine refuses, in which order it serves, and how outputs end.

use terrace_engine::{
    Engine, Failure, FinishReason, Priority, Request, SchedulerConfig, TokenEvent,
};

use crate::fixture::{BEHAVIOUR, Fixture, SCHEDULER, ask, order};
use crate::simulation_executor::{Behaviour, Failures, Log, SimulatedExecutor};
use crate::simulation_load::{
    Group, config, expected_events, expected_prompt, request, sampling_mut,
};

#[track_caller]
fn refused(change: impl FnOnce(&mut Request), message: &str) {
    let mut fixture = Fixture::new(20, SCHEDULER);
    let mut request = request(&[1, 2, 3]);
    change(&mut request);
    let error = fixture.engine.submit(request).expect_err("it cannot be served");
    assert_eq!(error.to_string(), message);
    assert!(fixture.engine.is_idle());
}

#[test]
fn what_can_never_be_served_is_refused_with_the_numbers() {
    refused(|r| r.prompt.clear(), "the prompt is empty; give at least one token");
    refused(
        |r| r.prompt = vec![1; 501],
        "the prompt has 501 tokens, the limit is 500 (max_input_len)",
    );
    refused(|r| r.prompt[1] = 11, "token id 11 is outside the vocabulary of 11");
    refused(
        |r| sampling_mut(r).max_new_tokens = 998,
        "prompt and output may need 1001 tokens (3 + 998), but 1000 fit into the model's \
         context and the kv memory; \
         shorten the prompt or lower max_tokens",
    );
    refused(
        |r| sampling_mut(r).max_new_tokens = 78,
        "the request may need 21 kv pages of 4 tokens, the whole pool has 20; shorten it, or give \
         the server more kv memory",
    );
    refused(
        |r| sampling_mut(r).choices = 5,
        "n is 5: it must be at least 1 and at most the server's max_batch_size",
    );
    refused(
        |r| sampling_mut(r).choices = 0,
        "n is 0: it must be at least 1 and at most the server's max_batch_size",
    );
    refused(|r| r.priority = Priority(101), "priority is 101: it must be from -100 to 100");
}

#[test]
fn a_full_queue_takes_nobody() {
    let mut fixture = Fixture::new(20, SchedulerConfig { max_waiting: 2, ..SCHEDULER });
    fixture.submit(ask(1, 1, 1));
    fixture.submit(ask(1, 1, 1));
    let error = fixture.engine.submit(ask(1, 1, 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 requests are waiting already, the limit is 2; try again later"
    );
    fixture.step();
    fixture.submit(ask(1, 1, 1));
    fixture.run();
}

#[test]
fn shuffled_pages_change_no_output() {
    let mut outputs = Vec::new();
    for seed in [None, Some(1)] {
        let mut fixture = Fixture::new(40, SCHEDULER);
        if let Some(seed) = seed {
            fixture.engine.shuffle_pages(seed);
            fixture.engine.check();
        }
        for first in 1..4 {
            fixture.submit(ask(first, 9, 7));
        }
        outputs.push(fixture.run());
    }
    assert_eq!(outputs[0], outputs[1]);
}

#[test]
fn a_budget_below_the_batch_is_refused() {
    let scheduler = SchedulerConfig { max_step_tokens: 3, ..SCHEDULER };
    let config = config(&[Group::of(4)], 20, scheduler);
    let executor = SimulatedExecutor::new(&config, BEHAVIOUR, Log::default());
    let Err(error) = Engine::new(Box::new(executor), config) else { panic!("it was taken") };
    assert!(error.to_string().starts_with("max_step_tokens is 3: "), "{error}");
}

#[test]
fn decode_goes_on_while_a_long_prompt_is_computed_in_chunks() {
    let mut fixture = Fixture::new(40, SCHEDULER);
    let short = fixture.submit(ask(1, 2, 9));
    fixture.step();
    let long = fixture.submit(ask(2, 30, 1));
    let mut steps = 0;
    loop {
        let events = fixture.step();
        steps += 1;
        assert!(order(&events).contains(&short), "the output stopped in step {steps}");
        if order(&events).contains(&long) {
            break;
        }
    }
    // One row of eight belongs to the output: 7 + 7 + 7 + 7 + 2.
    assert_eq!(steps, 5);
    assert_eq!(fixture.rows(), [2, 8, 8, 8, 8, 3]);
    fixture.run();
}

#[test]
fn nobody_overtakes_because_it_is_small() {
    let mut fixture = Fixture::new(10, SCHEDULER);
    let ids = [ask(1, 12, 8), ask(2, 24, 4), ask(3, 1, 1)].map(|request| fixture.submit(request));
    assert_eq!(order(&fixture.run()), ids);
}

#[test]
fn priority_goes_first_but_waiting_counts() {
    let one_at_a_time = SchedulerConfig { max_seqs: 1, ..SCHEDULER };
    let mut fixture = Fixture::new(20, one_at_a_time);
    let urgent = |new| Request { priority: Priority(1), ..ask(2, 4, new) };
    let first = fixture.submit(ask(1, 4, 15));
    let patient = fixture.submit(ask(1, 4, 1));
    fixture.step();
    let early = fixture.submit(urgent(1));
    let mut events = Vec::new();
    while fixture.engine.stats().steps <= 10 {
        events.extend(fixture.step());
    }
    // Ten steps of waiting are worth one priority.
    let late = fixture.submit(urgent(1));
    events.extend(fixture.run());
    assert_eq!(order(&events), [first, early, patient, late]);
}

#[test]
fn a_prompt_seen_before_is_not_computed_again() {
    let mut fixture = Fixture::new(40, SCHEDULER);
    fixture.submit(ask(1, 30, 1));
    fixture.run();
    let before = fixture.rows().iter().sum::<usize>();
    let again = fixture.submit(ask(1, 30, 1));
    assert_eq!(order(&fixture.run()), [again]);
    assert_eq!(before, 30);
    assert_eq!(fixture.rows().iter().sum::<usize>() - before, 2, "28 tokens fill seven pages");
    let stats = fixture.engine.stats();
    assert_eq!((stats.prefix_tokens_asked, stats.prefix_tokens_hit), (60, 28));

    let other_salt = Request { cache_salt: "other".into(), ..ask(1, 30, 1) };
    fixture.submit(other_salt);
    fixture.run();
    assert_eq!(fixture.engine.stats().prefix_tokens_hit, 28, "salts do not share");
}

#[test]
fn a_prompt_whose_probabilities_are_asked_is_computed_whole() {
    let mut fixture = Fixture::new(40, SCHEDULER);
    fixture.submit(ask(1, 30, 1));
    fixture.run();
    let mut scored = ask(1, 30, 0);
    sampling_mut(&mut scored).prompt_logprobs = Some(1);
    let id = fixture.submit(scored.clone());
    let events = fixture.run();
    let mut expected = vec![expected_prompt(&scored).unwrap()];
    expected.extend(expected_events(&scored, 0));
    assert_eq!(events, expected.into_iter().map(|event| (id, event)).collect::<Vec<_>>());
    assert_eq!(fixture.engine.stats().prefix_tokens_hit, 0);
}

#[test]
fn choices_share_the_prompt() {
    let mut fixture = Fixture::new(40, SCHEDULER);
    let mut request = ask(1, 6, 4);
    sampling_mut(&mut request).choices = 4;
    fixture.submit(request);
    fixture.step();
    let stats = fixture.engine.stats();
    assert_eq!((stats.running, stats.pages_total - stats.pages_free), (4, 2));
    fixture.step();
    // Three write copies of the open page, the fourth writes in place.
    assert_eq!(fixture.log.lock().unwrap()[1].copies, 3);
    let stats = fixture.engine.stats();
    assert_eq!(stats.pages_total - stats.pages_free, 5);
    fixture.run();
}

#[test]
fn cancelling_frees_everything_at_once() {
    let mut fixture = Fixture::new(40, SCHEDULER);
    let mut request = ask(1, 6, 10);
    sampling_mut(&mut request).choices = 3;
    let begun = fixture.submit(request.clone());
    fixture.step();
    let waiting = fixture.submit(request);
    let cancelled = |id| {
        let reason = FinishReason::Cancelled;
        [0, 1, 2].map(|choice| (id, TokenEvent::Finished { choice, reason })).to_vec()
    };
    assert_eq!(fixture.engine.cancel(begun), cancelled(begun));
    assert_eq!(fixture.engine.cancel(waiting), cancelled(waiting));
    assert_eq!(fixture.engine.cancel(waiting), []);
    assert!(fixture.engine.is_idle());
    let stats = fixture.engine.stats();
    assert_eq!(stats.pages_free, stats.pages_total);
    fixture.engine.check();
}

#[test]
fn a_failed_step_ends_its_sequences_and_the_engine_lives_on() {
    let mut fixture = Fixture::behaving(
        40,
        SchedulerConfig { max_seqs: 1, ..SCHEDULER },
        Behaviour { failures: Failures::OneIn(1), ..BEHAVIOUR },
    );
    let ids = [1, 2].map(|first| fixture.submit(ask(first, 4, 4)));
    for id in ids {
        let failed =
            TokenEvent::Finished { choice: 0, reason: FinishReason::Failed(Failure::Step) };
        assert_eq!(fixture.step(), [(id, failed)]);
    }
    assert!(fixture.engine.is_idle());
    assert_eq!(fixture.engine.stats().pages_cached, 0, "what was not computed is not known");
}

#[test]
fn a_stop_token_is_reported_before_the_end() {
    let mut fixture = Fixture::new(40, SCHEDULER);
    let mut request = ask(1, 4, 50);
    sampling_mut(&mut request).stop_ids = (0..3).collect();
    let id = fixture.submit(request.clone());
    let events = fixture.run();
    let [.., (_, TokenEvent::Token { id: token, .. }), (_, end)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(*end, TokenEvent::Finished { choice: 0, reason: FinishReason::Stop(*token) });
    let expected = expected_events(&request, 0).into_iter().map(|event| (id, event));
    assert_eq!(events, expected.collect::<Vec<_>>());
}
