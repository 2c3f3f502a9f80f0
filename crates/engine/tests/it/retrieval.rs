//! Retrieval over a tiny model: what is cached changes no result, what is left out is not found.

use terrace_engine::rank::{RankError, RankRequest, RetrieveOutput, RetrieveRequest};
use terrace_kernels::Compute;
use terrace_testkit::{Rng, TinyRanker};

use crate::ranking::{config, engine, item, request, runtime};

fn retrieve(history: &RankRequest, count: usize) -> RetrieveRequest {
    let history = RankRequest { candidates: Vec::new(), ..history.clone() };
    let (blocked, times) = (Vec::new(), Vec::new());
    RetrieveRequest { history, count, blocked, keeps_seen: false, times, time: None }
}

fn ids(output: &RetrieveOutput) -> Vec<i64> {
    output.items.iter().map(|it| it.item).collect()
}

#[test]
fn cached_histories_find_the_same_items() {
    for (seed, compute) in [(1, Compute::F32), (2, Compute::Fast)] {
        let (model, mut rng) = (TinyRanker::retrieval(seed), Rng::new(seed));
        let cached = engine(&model, compute, config(60, 8));
        let mut histories: Vec<RankRequest> =
            (0..6).map(|user| request(&mut rng, &user.to_string(), 1, 0)).collect();
        for round in 0..60 {
            let history = &mut histories[rng.below(6)];
            for _ in 0..rng.below(9) {
                history.items.push(item(&mut rng));
                history.actions.push(rng.below(TinyRanker::ACTIONS) as i64);
            }
            if rng.below(8) == 0 {
                let edited = rng.below(history.items.len());
                history.items[edited] = item(&mut rng);
            }
            if rng.below(4) == 0 {
                // All of it is cached, the last item too, which is computed nevertheless.
                let all = RankRequest { candidates: Vec::new(), ..history.clone() };
                runtime().block_on(cached.append(all)).expect("appends");
            }
            let mut asked = retrieve(history, 1 + rng.below(20));
            asked.keeps_seen = rng.below(2) == 0;
            asked.blocked = (0..rng.below(5)).map(|_| item(&mut rng)).collect();
            let got = runtime().block_on(cached.retrieve(asked.clone())).expect("retrieves");
            let fresh = engine(&model, compute, config(60, 8));
            let want = runtime().block_on(fresh.retrieve(asked.clone())).expect("retrieves");
            assert_eq!(got.items, want.items, "round {round}");
            assert_eq!(want.output.cached_tokens, 0);
            let found = ids(&got);
            assert!(found.iter().all(|item| !asked.blocked.contains(item)));
            let seen = |item: &i64| history.items.contains(item);
            assert!(asked.keeps_seen || !found.iter().any(seen), "round {round}");
            let left = TinyRanker::ITEMS
                - (0..TinyRanker::ITEMS as i64)
                    .map(|at| TinyRanker::FIRST_ITEM + at)
                    .filter(|it| asked.blocked.contains(it) || !asked.keeps_seen && seen(it))
                    .count();
            assert_eq!(found.len(), asked.count.min(left), "round {round}");
        }
        let stats = runtime().block_on(cached.stats()).expect("stats");
        assert!(0 < stats.device_tokens && 0 < stats.retrieved_items);
    }
}

#[test]
fn requests_that_begin_where_the_cache_ends_are_continued() {
    let (model, mut rng) = (TinyRanker::retrieval(5), Rng::new(5));
    let engine = engine(&model, Compute::F32, config(60, 8));
    let whole = request(&mut rng, "anna", 9, 0);
    let want = runtime().block_on(engine.retrieve(retrieve(&whole, 7))).expect("retrieves");
    let all = RankRequest { candidates: Vec::new(), ..whole.clone() };
    runtime().block_on(engine.append(all)).expect("appends");
    let tokens = 2 + 2 * 9;
    let nothing_new = RankRequest {
        context: Vec::new(),
        items: Vec::new(),
        actions: Vec::new(),
        start: Some(tokens),
        ..whole
    };
    let got = runtime().block_on(engine.retrieve(retrieve(&nothing_new, 7))).expect("retrieves");
    assert_eq!(got.items, want.items);
    // The query's own tokens are not of the history.
    assert_eq!((got.output.history_tokens, got.output.cached_tokens), (tokens - 2, tokens - 2));
    let too_far = RankRequest { start: Some(tokens + 3), ..nothing_new };
    let error = runtime().block_on(engine.retrieve(retrieve(&too_far, 7))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The input sequence has missing tokens from 20 to 22 (both inclusive)."
    );
}

#[test]
fn wrong_requests_are_refused_with_their_numbers() {
    let mut rng = Rng::new(6);
    let retrieval = engine(&TinyRanker::retrieval(6), Compute::F32, config(60, 8));
    let ranking = engine(&TinyRanker::new(6), Compute::F32, config(60, 8));
    let history = request(&mut rng, "ben", 3, 2);
    let ask = |request: RetrieveRequest| runtime().block_on(retrieval.retrieve(request));
    let wrong = |change: &dyn Fn(&mut RetrieveRequest)| {
        let mut request = retrieve(&history, 3);
        change(&mut request);
        ask(request).unwrap_err()
    };
    let most = TinyRanker::MAX_CANDIDATES;
    for found in [0, most + 1] {
        assert_eq!(wrong(&|it| it.count = found), RankError::ItemCount { found, most });
    }
    assert_eq!(wrong(&|it| it.times = vec![5]), RankError::NoTimes { found: 1 });
    let no_items = wrong(&|it| {
        it.history.items.clear();
        it.history.actions.clear();
    });
    assert_eq!(no_items, RankError::NoItems);
    assert!(matches!(wrong(&|it| it.blocked = vec![-4]), RankError::NegativeId { id: -4, .. }));
    assert!(matches!(wrong(&|it| it.history.items[0] = 7), RankError::UnknownId { id: 7, .. }));
    let error = runtime().block_on(ranking.retrieve(retrieve(&history, 3))).unwrap_err();
    assert_eq!(error, RankError::Ranks);
    assert_eq!(runtime().block_on(retrieval.rank(history)).unwrap_err(), RankError::Retrieves);
    let stats = runtime().block_on(retrieval.stats()).expect("stats");
    assert_eq!((stats.users, stats.free_pages), (0, stats.pages), "nothing is cached of them");
}
