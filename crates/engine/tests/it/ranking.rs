//! Ranking over a tiny model: what is cached changes no score.

use terrace_cache::users::UserKey;
use terrace_device::DType;
use terrace_engine::DeviceChoice;
use terrace_engine::rank::{
    RankConfig, RankError, RankHandle, RankOutput, RankRequest, RankSetup, RankSource, Truncate,
};
use terrace_kernels::Compute;
use terrace_model::hstu::HstuFiles;
use terrace_testkit::{Rng, TinyRanker};

/// An engine with room for so many tokens.
pub fn engine(model: &TinyRanker, compute: Compute, config: RankConfig) -> RankHandle {
    let config = RankConfig { f32: compute == Compute::F32, device: DeviceChoice::Cpu, ..config };
    let files = HstuFiles::open(&model.path()).expect("the tiny model opens");
    RankSetup { source: RankSource::Files(&files), config }.start().expect("the tiny model starts")
}

pub fn config(pages: usize, page_tokens: usize) -> RankConfig {
    // Two layers of keys and values, 32 numbers of four bytes each.
    let kv_bytes = pages * page_tokens * 2 * 2 * 32 * 4;
    RankConfig { page_tokens, kv_bytes: Some(kv_bytes), threads: 2, ..RankConfig::default() }
}

pub fn rank(engine: &RankHandle, request: &RankRequest) -> Result<RankOutput, RankError> {
    runtime().block_on(engine.rank(request.clone()))
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime")
}

pub fn item(rng: &mut Rng) -> i64 {
    TinyRanker::FIRST_ITEM + rng.below(TinyRanker::ITEMS) as i64
}

pub fn request(rng: &mut Rng, user: &str, events: usize, candidates: usize) -> RankRequest {
    RankRequest {
        user: UserKey::new("", user),
        context: vec![rng.below(5) as i64, rng.below(7) as i64],
        items: (0..events).map(|_| item(rng)).collect(),
        actions: (0..events).map(|_| rng.below(TinyRanker::ACTIONS) as i64).collect(),
        candidates: (0..candidates).map(|_| item(rng)).collect(),
        start: None,
        priority: 0,
        strict: true,
        timeout_ms: None,
    }
}

pub fn grow(rng: &mut Rng, request: &mut RankRequest, events: usize) {
    request.items.extend((0..events).map(|_| item(rng)));
    request.actions.extend((0..events).map(|_| rng.below(TinyRanker::ACTIONS) as i64));
    request.candidates = (0..1 + rng.below(20)).map(|_| item(rng)).collect();
}

#[test]
fn rows_that_go_through_mlps_rank_as_what_these_give() {
    let [narrow, plain] = TinyRanker::with_mlps(11);
    let engines = [narrow, plain].map(|model| engine(&model, Compute::F32, config(60, 8)));
    let mut rng = Rng::new(11);
    let mut asked = request(&mut rng, "anna", 1, 7);
    for _ in 0..4 {
        let [narrow, plain] = engines.each_ref().map(|engine| rank(engine, &asked).expect("ranks"));
        assert_eq!(narrow.cached_tokens, plain.cached_tokens);
        let apart = |(a, b): (&f32, &f32)| (a - b).abs() / b.abs().max(1.0);
        let most = narrow.logits.iter().zip(&plain.logits).map(apart).fold(0.0, f32::max);
        assert!(most < 2e-5, "{most}");
        grow(&mut rng, &mut asked, 5);
    }
}

#[test]
fn cached_equals_uncached_bit_for_bit() {
    for (seed, compute, kv_dtype) in [
        (1, Compute::F32, None),
        (2, Compute::Fast, None),
        (3, Compute::Fast, Some(DType::F8E4m3)),
        (4, Compute::F32, Some(DType::I8)),
        (5, Compute::Fast, None),
    ] {
        let mut rng = Rng::new(seed);
        let model = if seed == 5 { TinyRanker::stu(seed) } else { TinyRanker::new(seed) };
        // The one forgets users as others come, and computes in parts; the other forgets all.
        let pages = if kv_dtype.is_some() { 7 } else { 24 };
        let small = RankConfig { max_step_tokens: 37, kv_dtype, ..config(pages, 16) };
        let large = RankConfig { kv_dtype, ..config(64, 16) };
        let (cached, fresh) = (engine(&model, compute, small), engine(&model, compute, large));
        let mut users: Vec<RankRequest> =
            (0..6).map(|user| request(&mut rng, &user.to_string(), 0, 1)).collect();
        let (mut hits, mut edits) = (0, 0);
        for _ in 0..120 {
            let user = rng.below(users.len());
            let asked = &mut users[user];
            match rng.below(10) {
                0 if !asked.items.is_empty() => {
                    let at = rng.below(asked.items.len());
                    asked.items[at] = item(&mut rng);
                }
                1 => asked.context[1] = rng.below(7) as i64,
                _ => {
                    let events = rng.below(30);
                    grow(&mut rng, asked, events);
                }
            }
            let found = rank(&cached, asked).unwrap();
            runtime().block_on(fresh.evict_all()).unwrap();
            let want = rank(&fresh, asked).unwrap();
            assert_eq!(want.cached_tokens, 0);
            assert_eq!(found.logits, want.logits, "seed {seed}, user {user}");
            assert_eq!(found.candidates().len(), asked.candidates.len());
            hits += found.cached_tokens;
            edits += usize::from(found.was_edited);
        }
        assert!(1000 < hits && 0 < edits, "{hits} tokens were cached, {edits} edits noticed");
    }
}

#[test]
fn requests_that_begin_at_a_position_are_strict() {
    let mut rng = Rng::new(5);
    let model = TinyRanker::new(5);
    let engine = engine(&model, Compute::F32, config(64, 16));
    let whole = request(&mut rng, "anna", 20, 7);
    let want = rank(&engine, &whole).unwrap();
    runtime().block_on(engine.evict_all()).unwrap();

    // Two of context and 14 events, and then what follows, cut between an item and its action.
    let mut first = whole.clone();
    first.items.truncate(14);
    first.actions.truncate(14);
    rank(&engine, &first).unwrap();
    let rest = |start: usize| {
        let mut rest = whole.clone();
        let after = start - 2;
        rest.context.clear();
        rest.items.drain(..after.div_ceil(2));
        rest.actions.drain(..after / 2);
        RankRequest { start: Some(start), ..rest }
    };
    let refused = rank(&engine, &rest(33)).unwrap_err().to_string();
    let words = "The input sequence has missing tokens from 30 to 32 (both inclusive).";
    assert_eq!(refused, words);
    let refused = rank(&engine, &rest(25)).unwrap_err().to_string();
    let words = "The input sequence has overlapping tokens from 25 to 29 (both inclusive).";
    assert_eq!(refused, words);
    let found = rank(&engine, &rest(30)).unwrap();
    assert_eq!((found.logits, found.cached_tokens), (want.logits.clone(), 30));
    // All is cached now: nothing but candidates is new.
    let found = rank(&engine, &rest(42)).unwrap();
    assert_eq!((found.logits, found.cached_tokens), (want.logits, 42));
}

#[test]
fn bad_requests_are_refused_with_the_numbers_and_leave_nothing() {
    let mut rng = Rng::new(6);
    let model = TinyRanker::new(6);
    let engine = engine(&model, Compute::F32, config(64, 16));
    let good = request(&mut rng, "anna", 5, 3);
    let with = |change: &dyn Fn(&mut RankRequest)| {
        let mut bad = good.clone();
        change(&mut bad);
        rank(&engine, &bad).unwrap_err().to_string()
    };
    let refused = with(&|bad| bad.context.truncate(1));
    assert_eq!(refused, "the model takes 2 contextual features, the request has 1");
    let refused = with(&|bad| bad.actions.truncate(4));
    assert_eq!(refused, "4 actions for 5 items; each item has one");
    let refused = with(&|bad| bad.candidates = vec![1000; 1_000_000]);
    assert_eq!(refused, "1000000 candidates; the model takes up to 50");
    assert_eq!(with(&|bad| bad.candidates.clear()), "there are no candidates to rank");
    let refused = with(&|bad| bad.items[2] = -7);
    assert_eq!(refused, "feature \"item\" has the id -7; ids are not negative");
    let refused = with(&|bad| bad.candidates[0] = 5);
    assert_eq!(refused, "table \"item\" has no id 5, and the request is strict");
    assert!(runtime().block_on(engine.users("", 10)).unwrap().is_empty(), "nothing is cached");

    let mut lenient = RankRequest { strict: false, ..good };
    lenient.candidates[0] = 5;
    lenient.items[1] = 77;
    assert_eq!(rank(&engine, &lenient).unwrap().unknown_ids, 2);
}

#[test]
fn long_histories_are_truncated_as_configured() {
    let mut rng = Rng::new(7);
    let model = TinyRanker::new(7);
    let oldest = engine(&model, Compute::F32, config(64, 16));
    let recent = RankConfig { truncate: Truncate::Recent, ..config(64, 16) };
    let recent = engine(&model, Compute::F32, recent);
    let long = request(&mut rng, "anna", 130, 4);
    let part = |items: std::ops::Range<usize>| RankRequest {
        items: long.items[items.clone()].to_vec(),
        actions: long.actions[items].to_vec(),
        ..long.clone()
    };
    // 202 tokens are two of context and 100 events.
    let want = rank(&oldest, &part(0..100)).unwrap();
    assert_eq!(rank(&oldest, &long).unwrap().logits, want.logits);
    let want = rank(&recent, &part(50..130)).unwrap();
    assert_eq!(rank(&recent, &long).unwrap().logits, want.logits);
}

#[test]
fn users_are_listed_and_removed() {
    let mut rng = Rng::new(8);
    let model = TinyRanker::new(8);
    let engine = engine(&model, Compute::F32, config(64, 16));
    for user in ["anna", "ben"] {
        rank(&engine, &request(&mut rng, user, 9, 2)).unwrap();
    }
    let runtime = runtime();
    let users = runtime.block_on(engine.users("", 10)).unwrap();
    let names: Vec<&str> = users.iter().map(|(user, _)| &*user.user).collect();
    assert_eq!(names, ["ben", "anna"]);
    assert!(users.iter().all(|(_, span)| span.length == 20 && span.device_start == Some(0)));
    let anna = UserKey::new("", "anna");
    let removed = runtime.block_on(engine.remove_user(anna.clone())).unwrap();
    assert_eq!((removed.users, removed.tokens), (1, 20));
    assert_eq!(runtime.block_on(engine.span(anna.clone())).unwrap().length, 0);
    assert_eq!(runtime.block_on(engine.remove_user(anna)).unwrap().users, 0);
    let stats = runtime.block_on(engine.stats()).unwrap();
    assert_eq!((stats.users, stats.requests, stats.computed_tokens), (1, 2, 40));
    assert_eq!(runtime.block_on(engine.evict_all()).unwrap().users, 1);
    let stats = runtime.block_on(engine.stats()).unwrap();
    assert_eq!((stats.users, stats.free_pages), (0, stats.pages));
}

#[test]
fn many_threads_get_the_scores_of_one() {
    let mut rng = Rng::new(9);
    let model = TinyRanker::new(9);
    let alone = engine(&model, Compute::Fast, config(64, 16));
    let shared = engine(&model, Compute::Fast, RankConfig { max_users: 5, ..config(40, 16) });
    let asked: Vec<RankRequest> = (0..60)
        .map(|i| {
            let (events, candidates) = (rng.below(60), 1 + rng.below(30));
            request(&mut rng, &(i % 7).to_string(), events, candidates)
        })
        .collect();
    let want: Vec<_> = asked.iter().map(|asked| rank(&alone, asked).unwrap().logits).collect();
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let (asked, want, shared) = (&asked, &want, &shared);
            scope.spawn(move || {
                for i in (worker..asked.len()).step_by(6) {
                    assert_eq!(rank(shared, &asked[i]).unwrap().logits, want[i], "request {i}");
                }
            });
        }
    });
}
