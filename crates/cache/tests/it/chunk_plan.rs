//! Where sequences are cut, against the original's tables and by what must hold.

use terrace_cache::policy::{ChunkSizes, chunk_plan};
use terrace_testkit::{GoldenKv, Rng, counts};

#[test]
fn golden_chunk_tables() {
    let mut cases = 0;
    for table in GoldenKv::of_kind("chunk_tables") {
        for case in table.about["cases"].as_array().expect("a list of cases") {
            let number = |key: &str| case[key].as_u64().expect("a count") as usize;
            let lengths = counts(&case["cache_lengths"]).expect("lengths");
            let sizes = ChunkSizes { tokens: number("chunk_size"), random_seed: None };
            let got = chunk_plan(&lengths, number("seq_length"), sizes);
            assert_eq!(Some(got), counts(&case["chunk_sizes"]), "{case}");
            cases += 1;
        }
    }
    assert!(cases > 0);
}

#[test]
fn chunks_cover_the_sequence_and_end_where_caches_become_full() {
    let mut rng = Rng::new(17);
    for round in 0..2000 {
        let lengths: Vec<usize> = (0..1 + rng.below(3)).map(|_| 8 + rng.below(40)).collect();
        let tokens = rng.below(200);
        let chunk = 1 + rng.below(12);
        let random_seed = (round % 2 == 0).then(|| rng.number());
        let sizes = ChunkSizes { tokens: chunk, random_seed };
        let chunks = chunk_plan(&lengths, tokens, sizes);
        assert_eq!(chunks, chunk_plan(&lengths, tokens, sizes), "the same request, the same cuts");
        assert_eq!(chunks.iter().sum::<usize>(), tokens);
        assert!(!chunks.contains(&0));
        let ends: Vec<usize> = chunks
            .iter()
            .scan(0, |end, chunk| {
                *end += chunk;
                Some(*end)
            })
            .collect();
        for length in lengths.iter().filter(|length| **length <= tokens) {
            assert!(ends.contains(length), "{lengths:?} {tokens}: {ends:?}");
        }
        let most = if random_seed.is_some() { chunk + chunk / 2 } else { chunk };
        assert!(chunks.iter().skip(1).all(|tokens| *tokens <= most + 4), "{chunks:?}");
    }
}

#[test]
fn random_sizes_are_five_around_the_asked_one() {
    let sizes = ChunkSizes { tokens: 16, random_seed: Some(3) };
    let chunks = chunk_plan(&[64], 5000, sizes);
    let mut seen = chunks[1..chunks.len() - 1].to_vec();
    seen.sort_unstable();
    seen.dedup();
    assert!((2..=5).contains(&seen.len()), "{seen:?}");
    assert!(seen.iter().all(|size| (8..=24).contains(size)), "{seen:?}");
}
