//! Sessions by example, and random histories against a list in which everything is searched.

use std::collections::BTreeSet;

use proptest::prelude::*;
use terrace_cache::PageKey;
use terrace_cache::placement::Retention;

use super::{ClaimChange, Session, SessionLimits, Sessions};
use crate::generate::request::RequestId;
use crate::generate::request_retention::{RequestRetention, SessionKey};

const FEW: SessionLimits = SessionLimits { sessions: 3, pages: 12 };

fn key(owner: usize, id: &str) -> SessionKey {
    SessionKey { owner: Some(owner), id: id.to_owned() }
}

fn page(number: u8) -> PageKey {
    PageKey::from_bytes([number; 32])
}

fn asks(session: SessionKey, priority: u8, ttl_ms: u64) -> RequestRetention {
    RequestRetention { priority, ttl_ms: Some(ttl_ms), session: Some(session) }
}

fn claim(priority: u8, expires_ms: u64) -> Retention {
    Retention { priority, expires_ms: Some(expires_ms) }
}

/// A whole request that leaves these pages.
fn run(
    sessions: &mut Sessions,
    id: u64,
    retention: &RequestRetention,
    pages: &[u8],
    now_ms: u64,
) -> Vec<ClaimChange> {
    let mut changes = sessions.begin(RequestId(id), retention, now_ms);
    let conversation = (pages.iter().map(|number| page(*number)).collect(), 10 * pages.len());
    changes.extend(sessions.set_pages(RequestId(id), retention, conversation, now_ms));
    sessions.end(RequestId(id), now_ms);
    sessions.check();
    changes
}

fn claimed(changes: &[ClaimChange]) -> Vec<(PageKey, Retention)> {
    let pairs = changes.iter().filter_map(|change| Some((&change.pages, change.claimed?)));
    pairs.flat_map(|(pages, claim)| pages.iter().map(move |page| (*page, claim))).collect()
}

fn withdrawn(changes: &[ClaimChange]) -> Vec<(PageKey, Retention)> {
    let pairs = changes.iter().filter_map(|change| Some((&change.pages, change.withdrawn?)));
    pairs.flat_map(|(pages, claim)| pages.iter().map(move |page| (*page, claim))).collect()
}

#[test]
fn each_request_renews_the_claim_to_all_pages() {
    let mut sessions = Sessions::new(FEW);
    let talk = asks(key(0, "talk"), 60, 100);
    let first = run(&mut sessions, 1, &talk, &[1, 2], 10);
    assert_eq!(claimed(&first), [(page(1), claim(60, 110)), (page(2), claim(60, 110))]);
    let again = sessions.begin(RequestId(2), &talk, 50);
    assert_eq!(claimed(&again), [(page(1), claim(60, 150)), (page(2), claim(60, 150))]);
    assert_eq!(withdrawn(&again), [], "the new claim outlasts the old one");
    sessions.expire(1000);
    assert_eq!(sessions.len(), 1, "a session lives while a request of it runs");
    sessions.end(RequestId(2), 1000);
    sessions.expire(1000);
    assert_eq!((sessions.len(), sessions.next_expiry_ms()), (0, None));
    sessions.check();
}

#[test]
fn a_shorter_time_takes_the_place_of_a_longer_one() {
    let mut sessions = Sessions::new(FEW);
    run(&mut sessions, 1, &asks(key(0, "a"), 60, 1000), &[1, 2], 0);
    run(&mut sessions, 2, &asks(key(0, "b"), 60, 1000), &[2], 0);
    let changes = sessions.begin(RequestId(3), &asks(key(0, "a"), 50, 10), 5);
    assert_eq!(withdrawn(&changes), [(page(1), claim(60, 1000))], "the other page is b's too");
    assert_eq!(claimed(&changes), [(page(1), claim(50, 15)), (page(2), claim(50, 15))]);
}

#[test]
fn an_ended_session_gives_up_what_no_other_has() {
    let mut sessions = Sessions::new(FEW);
    run(&mut sessions, 1, &asks(key(0, "a"), 60, 100), &[1, 2], 0);
    run(&mut sessions, 2, &asks(key(1, "a"), 60, 100), &[1, 3], 0);
    assert_eq!(sessions.remove(&key(0, "b")), None);
    let change = sessions.remove(&key(0, "a")).expect("it is there");
    assert_eq!(withdrawn(&[change]), [(page(2), claim(60, 100))]);
    sessions.check();
    let left: Vec<_> = sessions.of_owner(Some(1), None).map(|(key, _)| key.id.as_str()).collect();
    assert_eq!((left, sessions.of_owner(Some(0), None).count()), (vec!["a"], 0));
}

#[test]
fn a_request_of_an_ended_session_leaves_nothing_to_a_new_one() {
    let mut sessions = Sessions::new(FEW);
    let talk = asks(key(0, "talk"), 60, 100);
    sessions.begin(RequestId(1), &talk, 0);
    sessions.remove(&key(0, "talk")).expect("it is there");
    sessions.begin(RequestId(2), &talk, 0);
    let changes = sessions.set_pages(RequestId(1), &talk, (vec![page(1)], 10), 1);
    assert_eq!(changes, []);
    sessions.end(RequestId(1), 1);
    sessions.check();
    let (_, session) = sessions.of_owner(Some(0), None).next().expect("the second one");
    assert_eq!((session.requests, session.running, session.pages.len()), (1, 1, 0));
}

#[test]
fn the_longest_unused_session_makes_way() {
    let mut sessions = Sessions::new(FEW);
    for (id, name) in ["a", "b", "c"].into_iter().enumerate() {
        run(&mut sessions, id as u64, &asks(key(0, name), 60, 100), &[id as u8], id as u64);
    }
    run(&mut sessions, 7, &asks(key(0, "a"), 60, 100), &[0], 5);
    let changes = run(&mut sessions, 8, &asks(key(0, "d"), 60, 100), &[9], 6);
    assert_eq!(withdrawn(&changes), [(page(1), claim(60, 101))]);
    let names = |after| sessions.of_owner(Some(0), after).map(|(key, _)| key.id.clone());
    assert_eq!(names(None).collect::<Vec<_>>(), ["a", "c", "d"]);
    assert_eq!(names(Some("b")).collect::<Vec<_>>(), ["c", "d"]);
    assert_eq!(names(Some("c")).collect::<Vec<_>>(), ["d"]);
}

#[test]
fn pages_of_all_sessions_are_bounded() {
    let mut sessions = Sessions::new(FEW);
    run(&mut sessions, 1, &asks(key(0, "a"), 60, 100), &[1, 2, 3, 4, 5, 6, 7, 8], 0);
    run(&mut sessions, 2, &asks(key(0, "b"), 60, 100), &[11, 12, 13, 14, 15], 1);
    assert_eq!(sessions.of_owner(Some(0), None).count(), 1);
    assert_eq!(sessions.pages, 5);
}

#[derive(Clone, Debug)]
enum Act {
    Begin { session: u8, ttl_ms: u64 },
    Leave { request: usize, pages: Vec<u8> },
    End { request: usize },
    Remove { session: u8 },
}

fn acts() -> impl Strategy<Value = Vec<(Act, u64)>> {
    let begin = (0..6_u8, 1..60_u64).prop_map(|(session, ttl_ms)| Act::Begin { session, ttl_ms });
    let pages = prop::collection::btree_set(0..9_u8, 0..6).prop_map(BTreeSet::into_iter);
    let leave = (0..8_usize, pages)
        .prop_map(|(request, pages)| Act::Leave { request, pages: pages.collect() });
    let end = (0..8_usize).prop_map(|request| Act::End { request });
    let remove = (0..6_u8).prop_map(|session| Act::Remove { session });
    let act = prop_oneof![3 => begin, 3 => leave, 3 => end, 1 => remove];
    prop::collection::vec((act, 0..20_u64), 1..120)
}

/// A session as the model has it: a line in a list.
#[derive(Debug)]
struct Line {
    session: u8,
    number: usize,
    expires_ms: u64,
    used_ms: u64,
    pages: Vec<u8>,
}

/// A running request: its id, what it asks, and the number of its line.
type RunningOf = (RequestId, RequestRetention, usize);

const MODEL_SESSIONS: usize = 4;
const MODEL_PAGES: usize = 16;

fn runs(line: &Line, running: &[RunningOf]) -> bool {
    running.iter().any(|(.., number)| *number == line.number)
}

/// When a session begins or gets pages: the longest unused of those without a running request leave
/// while there are too many.
fn make_way(lines: &mut Vec<Line>, running: &[RunningOf]) {
    loop {
        let pages: usize = lines.iter().map(|line| line.pages.len()).sum();
        if lines.len() <= MODEL_SESSIONS && pages <= MODEL_PAGES {
            break;
        }
        let idle = lines.iter().filter(|line| !runs(line, running));
        let oldest = idle.min_by_key(|line| (line.used_ms, line.number));
        let Some(number) = oldest.map(|line| line.number) else { break };
        lines.retain(|line| line.number != number);
    }
}

proptest! {
    #[test]
    fn random_histories_agree_with_a_list(acts in acts()) {
        let limits = SessionLimits { sessions: MODEL_SESSIONS, pages: MODEL_PAGES };
        let (mut sessions, mut lines) = (Sessions::new(limits), Vec::<Line>::new());
        let mut running: Vec<RunningOf> = Vec::new();
        let (mut now_ms, mut count) = (0, 0);
        for (act, passed_ms) in acts {
            now_ms += passed_ms;
            sessions.expire(now_ms);
            lines.retain(|line| now_ms < line.expires_ms || runs(line, &running));
            match act {
                Act::Begin { session, ttl_ms } => {
                    count += 1;
                    let retention = asks(key(0, &session.to_string()), 60, ttl_ms);
                    sessions.begin(RequestId(count as u64), &retention, now_ms);
                    if !lines.iter().any(|line| line.session == session) {
                        let (expires_ms, used_ms) = (0, now_ms);
                        let pages = Vec::new();
                        lines.push(Line { session, number: count, expires_ms, used_ms, pages });
                    }
                    let line = lines.iter_mut().find(|line| line.session == session);
                    let line = line.expect("it was added");
                    (line.expires_ms, line.used_ms) = (now_ms + ttl_ms, now_ms);
                    running.push((RequestId(count as u64), retention, line.number));
                    make_way(&mut lines, &running);
                }
                Act::Leave { request, pages } if request < running.len() => {
                    let (id, retention, number) = &running[request];
                    let keys = pages.iter().map(|number| page(*number)).collect();
                    sessions.set_pages(*id, retention, (keys, 1), now_ms);
                    if let Some(line) = lines.iter_mut().find(|line| line.number == *number) {
                        line.expires_ms = now_ms + retention.ttl_ms.expect("it was given");
                        line.pages = pages;
                        make_way(&mut lines, &running);
                    }
                }
                Act::End { request } if request < running.len() => {
                    let (id, _, number) = running.remove(request);
                    sessions.end(id, now_ms);
                    if let Some(line) = lines.iter_mut().find(|line| line.number == number) {
                        line.used_ms = now_ms;
                    }
                }
                Act::Remove { session } => {
                    let removed = sessions.remove(&key(0, &session.to_string()));
                    let known = lines.iter().position(|line| line.session == session);
                    prop_assert_eq!(removed.is_some(), known.is_some());
                    known.map(|line| lines.remove(line));
                }
                Act::Leave { .. } | Act::End { .. } => {}
            }
            sessions.check();
            let found = sessions.of_owner(Some(0), None);
            let line = |(key, session): (&SessionKey, &Session)| {
                (key.id.clone(), session.claim.expires_ms, session.pages.clone())
            };
            let found: BTreeSet<_> = found.map(line).collect();
            let want = lines.iter().map(|line| {
                let pages = line.pages.iter().map(|number| page(*number)).collect();
                (line.session.to_string(), Some(line.expires_ms), pages)
            });
            prop_assert_eq!(found, want.collect::<BTreeSet<_>>());
        }
    }
}
