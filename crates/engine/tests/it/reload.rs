//! Checkpoints that are replaced while an engine runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use terrace_engine::rank::{
    ModelChange, RankConfig, RankHandle, RankOutput, RankRequest, Reloaded,
};
use terrace_kernels::Compute;
use terrace_model::hstu::HstuFiles;
use terrace_testkit::{Rng, TinyRanker};

use crate::ranking::{config, engine, rank, request, runtime};

fn reload(engine: &RankHandle, model: &TinyRanker) -> Reloaded {
    engine.reload(&HstuFiles::open(&model.path()).expect("it opens")).expect("it reloads")
}

/// As an engine that has just started gives it.
fn fresh(model: &TinyRanker, request: &RankRequest) -> RankOutput {
    rank(&engine(model, Compute::F32, config(60, 8)), request).expect("ranks")
}

#[test]
fn other_layers_are_served_at_once_and_find_nothing_of_those_before() {
    let (model, mut rng) = (TinyRanker::new(1), Rng::new(1));
    let engine = engine(&model, Compute::F32, config(60, 8));
    let requests: Vec<RankRequest> =
        (0..3).map(|user| request(&mut rng, &user.to_string(), 12, 5)).collect();
    for request in &requests {
        rank(&engine, request).expect("ranks");
    }
    let unchanged = Reloaded { change: ModelChange::None, generation: 0, to_rewarm: Vec::new() };
    assert_eq!(reload(&engine, &model), unchanged);
    model.replace(1, 2);
    let reloaded = reload(&engine, &model);
    assert_eq!((reloaded.change, reloaded.generation), (ModelChange::Layers, 1));
    let users: Vec<&str> = reloaded.to_rewarm.iter().map(|(user, _)| &*user.user).collect();
    assert_eq!(users, ["2", "1", "0"], "the most recently used first");
    let output = rank(&engine, &requests[0]).expect("ranks");
    assert_eq!(output.cached_tokens, 0);
    assert_eq!(output.logits, fresh(&model, &requests[0]).logits);
    // What was computed meanwhile is not computed again, the others are.
    let before = runtime().block_on(engine.stats()).expect("stats").computed_tokens;
    let warmed = runtime().block_on(engine.rewarm(reloaded.to_rewarm)).expect("computes");
    let stats = runtime().block_on(engine.stats()).expect("stats");
    assert_eq!((warmed, stats.computed_tokens - before), (2, 2 * (2 + 24)));
    for request in &requests {
        let output = rank(&engine, request).expect("ranks");
        assert_eq!(output.cached_tokens, output.history_tokens);
        assert_eq!(output.logits, fresh(&model, request).logits);
    }
}

#[test]
fn pages_of_older_tables_are_used_until_they_are_stale() {
    for max_staleness in [None, Some(Duration::ZERO)] {
        let (model, mut rng) = (TinyRanker::new(3), Rng::new(3));
        let config = RankConfig { max_staleness, ..config(60, 8) };
        let engine = engine(&model, Compute::F32, config);
        let mut asked = request(&mut rng, "anna", 12, 5);
        let old = rank(&engine, &asked).expect("ranks");
        model.replace(4, 3);
        let reloaded = reload(&engine, &model);
        assert_eq!((reloaded.change, reloaded.generation), (ModelChange::Tables, 1));
        assert_eq!(runtime().block_on(engine.stats()).expect("stats").generation, 1);
        std::thread::sleep(Duration::from_millis(2));
        let output = rank(&engine, &asked).expect("ranks");
        // Candidates have the new rows in any case.
        assert_ne!(output.logits, old.logits);
        match max_staleness {
            None => {
                assert_eq!(output.cached_tokens, output.history_tokens);
                // What is appended follows them.
                crate::ranking::grow(&mut rng, &mut asked, 4);
                let grown = rank(&engine, &asked).expect("ranks");
                assert_eq!((grown.cached_tokens, grown.was_edited), (26, false));
                let again = rank(&engine, &asked).expect("ranks");
                assert_eq!((again.cached_tokens, &again.logits), (34, &grown.logits));
            }
            Some(_) => {
                assert_eq!((output.cached_tokens, output.was_edited), (0, false));
                assert_eq!(output.logits, fresh(&model, &asked).logits);
                let stats = runtime().block_on(engine.stats()).expect("stats");
                assert_eq!(stats.cache.stale_tokens, 26);
            }
        }
    }
}

#[test]
fn no_request_fails_while_checkpoints_are_replaced() {
    let (model, mut rng) = (TinyRanker::new(5), Rng::new(5));
    let engine = engine(&model, Compute::F32, config(60, 8));
    let requests: Vec<RankRequest> =
        (0..4).map(|user| request(&mut rng, &user.to_string(), 20, 9)).collect();
    let mut known: Vec<Vec<Vec<f32>>> = Vec::new();
    for layers in [6, 7, 5] {
        model.replace(5, layers);
        known.push(requests.iter().map(|request| fresh(&model, request).logits).collect());
    }
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (user, request) in requests.iter().enumerate() {
            let (engine, known, done, answered) = (&engine, &known, &done, &answered);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let logits = rank(engine, request).expect("ranks").logits;
                    assert!(known.iter().any(|version| version[user] == logits), "a mixture");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for layers in [6, 7, 5, 6, 7, 5] {
            let seen = answered.load(Ordering::Relaxed);
            model.replace(5, layers);
            assert_eq!(reload(&engine, &model).change, ModelChange::Layers);
            while answered.load(Ordering::Relaxed) < seen + 8 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let stats = runtime().block_on(engine.stats()).expect("stats");
    assert_eq!((stats.generation, stats.failures), (6, 0));
}

#[test]
fn what_does_not_fit_is_refused_and_the_one_before_is_served() {
    let (model, other, mut rng) = (TinyRanker::new(8), TinyRanker::retrieval(8), Rng::new(8));
    let engine = engine(&model, Compute::F32, config(60, 8));
    let asked = request(&mut rng, "anna", 5, 3);
    let before = rank(&engine, &asked).expect("ranks");
    let files = HstuFiles::open(&other.path()).expect("it opens");
    let error = engine.reload(&files).unwrap_err().to_string();
    assert!(error.contains("config.json differs"), "{error}");
    let after = rank(&engine, &asked).expect("ranks");
    assert_eq!((after.logits, after.cached_tokens), (before.logits, 12));
}
