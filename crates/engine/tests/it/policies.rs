//! Caches that choose and compress, through the whole engine: an output depends neither on pages,
//! steps and batch-mates nor on being preempted, and a cache that need not evict changes nothing.

use terrace_engine::{EngineStats, KwArg, Lengths, RequestedKvCache, TokenId};
use terrace_testkit::Rng;

use crate::policy_fixture::{
    CONTEXT, Fixture, NEW_TOKENS, PLAIN, Setting, alone, assert_same, prompt, requested,
};

/// Policies that need no text, each with another buffer.
fn evicting() -> Vec<RequestedKvCache> {
    let names = [
        "lastrec-default",
        "streamingllm-default",
        "streamingllm-torch-quantized8",
        "h2o-default",
        "h2o-torch-quantized8",
        "h2o-vlen-torch-quantized4",
        "qh2o-bnb-quantized8",
        "qh2o-vlen-fp8+torch-quantized4",
        "h2o-orig-bnb-quantized4",
        "fading-torch-quantized8",
        "fading-fp8+default",
        "repeating-default",
    ];
    let mut all: Vec<_> = names.iter().map(|name| requested(name, 24, 8)).collect();
    let mut graced = requested("h2o-default", 24, 8);
    graced.grace_period = Some(6);
    graced.cache_kwargs.insert("normalize_scores".into(), KwArg::Flag(true));
    let mut by_layer = requested("h2o-torch-quantized8", 0, 5);
    by_layer.cache_length = Some(Lengths::EachLayer(vec![32, 20, 32]));
    let random =
        RequestedKvCache { randomize_chunk_sizes: Some(true), ..requested("h2o-fp8", 28, 6) };
    let mut own_by_layer = requested("fading-bnb-quantized8", 0, 6);
    own_by_layer.cache_length = Some(Lengths::EachLayer(vec![20, 36, 20]));
    own_by_layer.cache_kwargs.insert("kept_share".into(), KwArg::Number(0.25));
    all.extend([graced, by_layer, random, own_by_layer]);
    all
}

fn requests(seed: u64) -> Vec<(RequestedKvCache, Vec<TokenId>)> {
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut requests: Vec<_> = evicting()
        .into_iter()
        .map(|requested| {
            let tokens = 10 + rng.below(90);
            (requested, prompt(&mut rng, tokens))
        })
        .collect();
    for name in ["dense-default", "dense-torch-quantized8", "dense-fp8"] {
        requests.push((requested(name, CONTEXT, 8), prompt(&mut rng, 40)));
    }
    requests
}

#[test]
fn pages_steps_and_batch_mates_change_nothing() {
    let requests = requests(1);
    let wanted = alone(&requests);
    for (page_tokens, max_step_tokens) in [(1, 20), (16, 18), (64, 64)] {
        let setting = Setting { page_tokens, max_step_tokens, pages: 1500, ..PLAIN };
        let found = Fixture::new(setting).run(&requests);
        assert_same(&found, &wanted, &requests, &format!("{setting:?}"));
    }
}

#[test]
fn a_second_round_finds_pages_and_outputs_the_same() {
    let requests = requests(2);
    let wanted = alone(&requests);
    let mut fixture = Fixture::new(PLAIN);
    for round in 0..3 {
        let found = fixture.run_with(&requests, None);
        for ((found, wanted), (requested, _)) in found.iter().zip(&wanted).zip(&requests) {
            assert_eq!(found.ids, wanted.ids, "round {round}: {requested:?}");
        }
    }
    assert!(fixture.stats().prefix_tokens_hit > 0, "nothing was shared");
}

/// Runs a seed's requests, as if alone, in a pool that is too small for them.
fn run_in_tight_pool(seed: u64, store_pages: usize) -> EngineStats {
    // Those that grow go first, so that they take the pages of those that do not.
    let mut rng = Rng::new(100 + seed);
    let grow = (0..4).map(|_| (RequestedKvCache::default(), prompt(&mut rng, 30)));
    let requests: Vec<_> = grow.chain(requests(seed)).collect();
    let wanted = alone(&requests);
    let tight = Setting { page_tokens: 4, max_step_tokens: 24, pages: 46, store_pages, ..PLAIN };
    let mut fixture = Fixture::new(tight);
    let found = fixture.run(&requests);
    assert_same(&found, &wanted, &requests, &format!("{tight:?}"));
    fixture.stats()
}

#[test]
fn preempted_sequences_go_on_as_if_nothing_had_been() {
    let stats = (3..6).map(|seed| run_in_tight_pool(seed, PLAIN.store_pages));
    assert!(stats.map(|stats| stats.swaps_out).sum::<u64>() > 0, "nobody's pages were moved");
}

/// Also where the store has room for some or for nobody: then they are computed again, chunk by
/// chunk.
#[test]
fn sequences_that_find_no_room_in_the_store_are_computed_again() {
    let mut swapped = Vec::new();
    for store_pages in [0, 4, 8, 16] {
        let (mut swaps, mut preemptions) = (0, 0);
        for seed in 3..6 {
            let stats = run_in_tight_pool(seed, store_pages);
            swaps += stats.swaps_out;
            preemptions += stats.preemptions;
        }
        assert!(0 < preemptions, "nobody was preempted");
        swapped.push(swaps);
    }
    assert_eq!(swapped[0], 0, "there is no store");
    assert!(swapped[1] < swapped[3], "the store was never full, or never used: {swapped:?}");
}

#[test]
fn compressed_sequences_that_keep_everything_are_computed_again() {
    let mut rng = Rng::new(11);
    let cache = requested("dense-torch-quantized8", CONTEXT, 8);
    let requests: Vec<_> = (0..6).map(|_| (cache.clone(), prompt(&mut rng, 30))).collect();
    let wanted = alone(&requests);
    let mut preemptions = 0;
    for (page_tokens, pages) in [(1, 24), (1, 36), (2, 14), (4, 8)] {
        let tight = Setting { page_tokens, max_step_tokens: 24, pages, ..PLAIN };
        let mut fixture = Fixture::new(tight);
        assert_same(&fixture.run(&requests), &wanted, &requests, "a tight pool");
        preemptions += fixture.stats().preemptions;
    }
    assert!(preemptions > 0, "nobody was preempted");
}

#[test]
fn a_cache_longer_than_its_sequence_is_dense() {
    let mut rng = Rng::new(7);
    let prompt = prompt(&mut rng, 50);
    let dense = Fixture::new(PLAIN).run(&[(RequestedKvCache::default(), prompt.clone())]).remove(0);
    for name in ["lastrec", "streamingllm", "h2o", "h2o-vlen", "h2o-orig", "repeating"] {
        let requested = requested(&format!("{name}-default"), 128, 8);
        let found = Fixture::new(PLAIN).run(&[(requested, prompt.clone())]).remove(0);
        assert_eq!(found.ids, dense.ids, "{name}");
        let pairs = found.prompt_logprobs.iter().zip(&dense.prompt_logprobs);
        let most = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(most < 1e-4, "{name}: {most}");
    }
}

#[test]
fn a_log_has_every_token_and_chunk() {
    let requests = requests(8);
    for (outcome, (requested, prompt)) in alone(&requests).iter().zip(&requests) {
        let dense = requested.name.as_ref().is_some_and(|name| name.starts_with("dense"));
        assert_eq!(outcome.replay.is_none(), dense, "{requested:?}");
        let Some(log) = &outcome.replay else { continue };
        // The last token that is sampled is never computed.
        assert_eq!(log.tokens(), prompt.len() + NEW_TOKENS - 1, "{requested:?}");
        assert!(log.chunks().ends_with(&[1; NEW_TOKENS - 1]), "{:?}", log.chunks());
        for layer in 0..log.layers() {
            let mut positions = log.positions(layer, 0, log.tokens());
            positions.sort_unstable();
            positions.dedup();
            assert_eq!(positions.len(), log.tokens().min(log.shape(layer).slots), "{requested:?}");
        }
    }
}

/// With what the policy decided before, and the same when all of it is computed again.
#[test]
fn what_goes_on_from_a_handle_reports_every_decision() {
    let mut rng = Rng::new(21);
    let prompts = [prompt(&mut rng, 40), prompt(&mut rng, 20)];
    for name in ["h2o-default", "lastrec-default", "h2o-torch-quantized8"] {
        let requested = RequestedKvCache { replay_log: Some(true), ..requested(name, 24, 8) };
        let run =
            |released| Fixture::new(PLAIN).run_continued(&requested, prompts.clone(), released);
        let (kept, again) = (run(false), run(true));
        let log = kept.replay.as_ref().expect("a log was asked for");
        let tokens = prompts.iter().map(Vec::len).sum::<usize>() + 2 * NEW_TOKENS - 1;
        assert_eq!(log.tokens(), tokens, "{name}");
        assert_eq!(kept, again, "{name}: released before it ran");
    }
}
