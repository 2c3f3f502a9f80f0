//! What a request has computed outlives it: kept by a handle, continued from, with its open page.

use terrace_engine::{
    Error, Events, FinishReason, KvHandle, Request, RequestId, TokenEvent, TokenId,
};

use crate::fixture::{BEHAVIOUR, Fixture, SCHEDULER, ask};
use crate::simulation_executor::Behaviour;
use crate::simulation_load::expected_events;

fn tokens(events: &Events, id: RequestId) -> Vec<TokenId> {
    let of = events.iter().filter(|(event_of, _)| *event_of == id);
    let token = |(_, event): &(RequestId, TokenEvent)| match event {
        TokenEvent::Token { id, .. } => Some(*id),
        _ => None,
    };
    of.filter_map(token).collect()
}

/// Runs a request of 13 + 5 tokens and keeps what it leaves; the tokens, and the handle.
fn leave(fixture: &mut Fixture) -> (Vec<TokenId>, KvHandle) {
    let request = ask(1, 13, 5);
    let id = fixture.submit(request.clone());
    let handle = fixture.engine.keep(id).expect("it is live");
    let events = fixture.run_until_idle();
    ([&request.prompt[..], &tokens(&events, id)].concat(), handle)
}

/// Goes on from what is kept, to the end; what came, and how many tokens were computed.
fn go_on(fixture: &mut Fixture, handle: KvHandle, next: &Request) -> (RequestId, Events, usize) {
    let before: usize = fixture.rows().iter().sum();
    let id = fixture.engine.continue_from(handle, next.clone()).expect("it is kept");
    let events = fixture.run_until_idle();
    (id, events, fixture.rows().iter().sum::<usize>() - before)
}

/// The same request, with its past as a part of its prompt.
fn whole(past: &[TokenId], next: Request) -> Request {
    Request { prompt: [past, &next.prompt].concat(), ..next }
}

#[test]
fn only_what_is_new_is_computed_when_a_request_goes_on() {
    for max_under_way in [1, 2] {
        let behaviour = Behaviour { max_under_way, ..BEHAVIOUR };
        let mut fixture = Fixture::behaving(40, SCHEDULER, behaviour);
        let (past, handle) = leave(&mut fixture);
        assert_eq!(past.len(), 18);
        let stats = fixture.engine.stats();
        // 17 tokens are computed: four full pages, and one with a single token.
        assert_eq!(stats.pages_total - stats.pages_free, 5);
        for _ in 0..2 {
            let next = ask(2, 3, 4);
            let (id, events, computed) = go_on(&mut fixture, handle, &next);
            let cached = TokenEvent::CachedPrompt { tokens: 17 };
            let expected = [cached].into_iter().chain(expected_events(&whole(&past, next), 0));
            assert_eq!(events, expected.map(|event| (id, event)).collect::<Vec<_>>());
            // The last token of the past, three new ones, and three that were sampled.
            assert_eq!(computed, 7);
        }
        fixture.engine.release(handle);
        fixture.run();
    }
}

#[test]
fn what_is_kept_leaves_the_device_when_others_need_its_pages() {
    for store_pages in [20, 2] {
        let mut fixture = Fixture::with_store(18, store_pages, SCHEDULER);
        let (past, handle) = leave(&mut fixture);
        // All pages but one: what is kept must leave, to the store or for good.
        fixture.submit(ask(3, 60, 4));
        fixture.run_until_idle();
        let stats = fixture.engine.stats();
        assert_eq!(stats.pages_free, stats.pages_total, "it has left the device");
        let in_store = stats.store_pages_total - stats.store_pages_free;
        assert_eq!(in_store, if store_pages == 20 { 5 } else { 0 });

        let next = ask(2, 3, 1);
        let (id, events, computed) = go_on(&mut fixture, handle, &next);
        let expected = expected_events(&whole(&past, next), 0);
        let found =
            events.into_iter().filter(|(_, it)| !matches!(it, TokenEvent::CachedPrompt { .. }));
        let expected: Vec<_> = expected.into_iter().map(|event| (id, event)).collect();
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!(computed <= 5, store_pages == 20, "{computed} tokens were computed");
        fixture.engine.release(handle);
        fixture.run();
    }
}

#[test]
fn a_cancelled_request_leaves_what_is_known_of_it() {
    let mut fixture = Fixture::behaving(40, SCHEDULER, Behaviour { max_under_way: 2, ..BEHAVIOUR });
    let request = ask(1, 6, 20);
    let id = fixture.submit(request.clone());
    let handle = fixture.engine.keep(id).expect("it is live");
    let mut events: Events = (0..3).flat_map(|_| fixture.step()).collect();
    events.extend(fixture.engine.cancel(id));
    let past = [&request.prompt[..], &tokens(&events, id)].concat();
    let next = ask(2, 1, 3);
    let next_id = fixture.engine.continue_from(handle, next.clone()).expect("it is kept");
    fixture.engine.release(handle);
    let found = tokens(&fixture.run(), next_id);
    let expected = expected_events(&whole(&past, next), 0);
    let expected = expected.into_iter().map(|event| (next_id, event)).collect();
    assert_eq!(found, tokens(&expected, next_id));
}

#[test]
fn handles_that_cannot_be_continued_from_are_refused() {
    let mut fixture = Fixture::new(40, SCHEDULER);
    let unknown = RequestId(77);
    assert!(matches!(fixture.engine.keep(unknown), Err(Error::UnknownRequest { id: 77 })));
    let id = fixture.submit(ask(1, 5, 2));
    let handle = fixture.engine.keep(id).expect("it is live");
    assert_eq!(fixture.engine.keep(id).expect("it is live"), handle, "one request has one handle");
    let early = fixture.engine.continue_from(handle, ask(2, 1, 1));
    assert!(matches!(early, Err(Error::HandleNotReady { .. })));
    let events = fixture.engine.cancel(id);
    assert!(matches!(
        events[..],
        [(_, TokenEvent::Finished { reason: FinishReason::Cancelled, .. })]
    ));
    let too_long = fixture.engine.continue_from(handle, ask(2, 300, 900));
    assert!(matches!(too_long, Err(Error::ContextTooLong { .. })));
    fixture.engine.release(handle);
    let gone = fixture.engine.continue_from(handle, ask(2, 1, 1));
    assert!(matches!(gone, Err(Error::UnknownHandle { .. })));
    fixture.run();
}
