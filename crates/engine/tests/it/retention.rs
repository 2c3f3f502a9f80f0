//! How long pages stay: priorities, times to live and sessions, over a simulated device that is too
//! small for all of them.

use terrace_engine::{
    Engine, EngineConfig, Request, RequestRetention, SessionKey, SessionQuery, SessionReading,
    TierConfig, TokenId,
};

use crate::fixture::{BEHAVIOUR, SCHEDULER};
use crate::simulation_executor::{Log, SimulatedExecutor};
use crate::simulation_load::{Group, config, request, sampling_mut};

/// Pages of 4 tokens, on a device of 12 pages.
const PAGE_TOKENS: usize = 4;
const PAGES: usize = 12;
/// Each prompt fills so many pages.
const PROMPT_PAGES: usize = 3;

struct Fixture {
    engine: Engine,
    now_ms: u64,
}

impl Fixture {
    fn new(tiers: TierConfig, store_pages: usize) -> Self {
        let config = config(&[Group::of(PAGE_TOKENS)], PAGES, SCHEDULER);
        let config = EngineConfig { store_pages, tiers, ..config };
        let executor = SimulatedExecutor::new(&config, BEHAVIOUR, Log::default());
        let engine = Engine::new(Box::new(executor), config).expect("a valid config");
        Fixture { engine, now_ms: 0 }
    }

    /// Runs a request to its end; how many of its tokens were found.
    fn run(&mut self, first: TokenId, retention: RequestRetention) -> u64 {
        let hits = self.engine.stats().prefix_tokens_hit;
        self.engine.submit(asks(first, retention)).expect("a good request");
        self.finish();
        self.engine.stats().prefix_tokens_hit - hits
    }

    fn plain(&mut self, first: TokenId) -> u64 {
        self.run(first, RequestRetention::default())
    }

    /// Three prompts that together want all pages but those of one other.
    fn fill(&mut self, turn: TokenId) {
        for index in 0..3 {
            self.plain(3 + 10 * turn + index);
        }
    }

    fn finish(&mut self) {
        while !self.engine.is_idle() {
            self.engine.step_at(self.now_ms);
            self.engine.check();
        }
    }

    /// Time goes on, and the engine sees it.
    fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
        self.engine.step_at(self.now_ms);
        self.engine.check();
    }

    fn sessions(&self) -> Vec<SessionReading> {
        self.engine.sessions(&SessionQuery { owner: None, after: None, most: 9 })
    }
}

/// A prompt of whole pages and one token, which is unlike those with another `first`.
fn asks(first: TokenId, retention: RequestRetention) -> Request {
    let tokens = (PROMPT_PAGES * PAGE_TOKENS) as TokenId;
    let mut prompt = vec![first % 11, first / 11];
    prompt.extend((2..=tokens).map(|index| (index * 7 + first) % 11));
    let mut request = request(&prompt);
    sampling_mut(&mut request).max_new_tokens = 1;
    Request { retention, ..request }
}

fn keeps(priority: u8, ttl_ms: Option<u64>) -> RequestRetention {
    RequestRetention { priority, ttl_ms, session: None }
}

fn session(id: &str, ttl_ms: u64) -> RequestRetention {
    let session = Some(SessionKey { owner: None, id: id.to_owned() });
    RequestRetention { priority: 60, ttl_ms: Some(ttl_ms), session }
}

const ALL: u64 = (PROMPT_PAGES * PAGE_TOKENS) as u64;

#[test]
fn a_high_priority_outlives_others_and_a_low_one_goes_first() {
    let mut fixture = Fixture::new(TierConfig::default(), 0);
    fixture.run(1, keeps(80, None));
    fixture.fill(0);
    fixture.fill(1);
    assert_eq!(fixture.run(1, keeps(80, None)), ALL, "two floods have passed over it");
    let mut fixture = Fixture::new(TierConfig::default(), 0);
    for index in 0..2 {
        fixture.plain(3 + index);
    }
    fixture.run(2, keeps(0, None));
    fixture.plain(50);
    fixture.plain(51);
    // One page of the oldest had to go too.
    assert_eq!(fixture.plain(3), ALL - PAGE_TOKENS as u64);
    assert_eq!(fixture.plain(2), 0, "it was newer, and less important");
}

#[test]
fn a_priority_ends_with_its_time() {
    let mut fixture = Fixture::new(TierConfig::default(), 0);
    fixture.run(1, keeps(80, Some(100)));
    fixture.fill(0);
    fixture.wait(99);
    fixture.fill(1);
    assert_eq!(fixture.run(1, keeps(80, Some(100))), ALL, "used again, its time begins anew");
    fixture.wait(99);
    fixture.fill(2);
    fixture.wait(1);
    // Its pages are newer than some of the flood's, but their time is over.
    fixture.plain(60);
    fixture.plain(61);
    assert_eq!(fixture.run(1, keeps(80, Some(100))), 0);
}

#[test]
fn a_session_keeps_its_conversation_until_it_is_idle() {
    let mut fixture = Fixture::new(TierConfig::default(), 0);
    fixture.run(1, session("talk", 100));
    for turn in 0..4 {
        fixture.wait(60);
        fixture.fill(turn);
        assert_eq!(fixture.run(1, session("talk", 100)), ALL, "each request renews its time");
    }
    let sessions = fixture.sessions();
    assert_eq!(sessions.len(), 1);
    let talk = &sessions[0];
    assert_eq!((talk.id.as_str(), talk.requests, talk.priority), ("talk", 5, 60));
    assert_eq!((talk.tokens, talk.pages.device), (14, PROMPT_PAGES));
    assert_eq!((talk.created_ms_ago, talk.used_ms_ago, talk.expires_in_ms), (240, 0, 100));
    assert_eq!(fixture.engine.stats().sessions, 1);
    fixture.wait(100);
    assert_eq!((fixture.sessions(), fixture.engine.stats().sessions), (Vec::new(), 0));
    fixture.fill(5);
    fixture.fill(6);
    assert_eq!(fixture.plain(1), 0, "it has left as others do");
}

#[test]
fn a_session_that_is_ended_has_pages_like_others() {
    let mut fixture = Fixture::new(TierConfig::default(), 0);
    fixture.run(1, session("talk", 100_000));
    let key = SessionKey { owner: None, id: "talk".into() };
    let other = SessionKey { owner: Some(0), ..key.clone() };
    assert!(!fixture.engine.end_session(&other), "another owner has none of that id");
    assert!(fixture.engine.end_session(&key));
    assert!(!fixture.engine.end_session(&key));
    assert_eq!(fixture.plain(1), ALL, "they may still be found");
    fixture.fill(0);
    fixture.fill(1);
    assert_eq!(fixture.plain(1), 0);
}

#[test]
fn a_request_that_never_runs_leaves_no_session_running() {
    let mut fixture = Fixture::new(TierConfig::default(), 0);
    let id = fixture.engine.submit(asks(1, session("talk", 100))).expect("a good request");
    fixture.engine.cancel(id);
    fixture.engine.check();
    fixture.wait(1);
    assert_eq!(fixture.sessions(), []);
    let id = fixture.engine.submit(asks(1, session("talk", 100))).expect("a good request");
    fixture.wait(1);
    assert_eq!(fixture.sessions().len(), 1);
    fixture.engine.cancel(id);
    fixture.finish();
    fixture.wait(100);
    assert_eq!(fixture.sessions(), []);
}

#[test]
fn a_priority_goes_with_its_pages_to_the_store() {
    // The store has room for two prompts; what is idle goes there at once.
    let tiers = TierConfig { device_reserve: PAGES, batch_pages: 8, ..TierConfig::default() };
    let mut fixture = Fixture::new(tiers, 2 * PROMPT_PAGES);
    fixture.run(1, session("talk", 100_000));
    (0..4).for_each(|turn| fixture.fill(turn));
    assert_eq!(fixture.run(1, session("talk", 100_000)), ALL);
    let pages = fixture.sessions()[0].pages;
    assert_eq!((pages.lower, pages.absent), (0, 0), "{pages:?}");
}

#[test]
fn a_priority_above_100_is_refused() {
    let mut fixture = Fixture::new(TierConfig::default(), 0);
    let error = fixture.engine.submit(asks(1, keeps(101, None))).expect_err("it is too high");
    assert_eq!(error.to_string(), "kv_cache.priority is 101: it must be from 0 to 100");
}
