//! A prompt gives the same bits whole, in pieces, and in pages of any size.

use proptest::prelude::*;
use terrace_device::DType;
use terrace_kernels::conformance::{KvCase, KvSpec};
use terrace_kernels::random::SplitMix;
use terrace_kernels::{CpuLevel, CpuOps, PageLayout};

use crate::every_level;

/// Attention over one sequence of `tokens`, committed chunk by chunk.
fn attend_in_chunks(
    ops: &CpuOps,
    whole: &KvCase,
    page_tokens: usize,
    chunks: &[usize],
) -> Vec<f32> {
    let mut random = SplitMix::new(page_tokens as u64);
    let mut out = Vec::new();
    let mut past = 0;
    for &live in chunks {
        let layout = PageLayout { page_tokens, ..whole.spec.layout };
        let spec = KvSpec { layout, seqs: vec![[past, live]], ..whole.spec.clone() };
        let end = past + live;
        let rows = |rows: &[Vec<f32>]| {
            let width = rows[0].len() / (whole.spec.seqs[0][0] + whole.spec.seqs[0][1]);
            vec![rows[0][..end * width].to_vec()]
        };
        let (q, keys, values) = (rows(&whole.q), rows(&whole.keys), rows(&whole.values));
        let mut step = KvCase::of_rows(spec, q, keys, values, &mut random);
        out.extend(step.attend(ops));
        let wanted_pages = step.pages_after_commit();
        step.commit();
        assert!(step.pages() == wanted_pages, "commit writes the live rows and nothing else");
        past = end;
    }
    out
}

fn dtype() -> impl Strategy<Value = DType> {
    prop_oneof![
        Just(DType::F32),
        Just(DType::F16),
        Just(DType::Bf16),
        Just(DType::F8E4m3),
        Just(DType::F8E5m2)
    ]
}

fn page_tokens() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1), Just(2), Just(16), Just(64)]
}

prop_compose! {
    fn spec()(
        dtype in dtype(),
        page_tokens in page_tokens(),
        kv_heads in 1usize..3,
        group in 1usize..5,
        key_dim in 1usize..70,
        value_dim in 1usize..70,
        window in prop::option::of(1usize..150),
        tokens in 1usize..200,
        prompt_tokens in 0usize..250,
    ) -> KvSpec {
        let layers = 2;
        KvSpec {
            layout: PageLayout { layers, kv_heads, page_tokens, key_dim, value_dim, dtype },
            layer: 1,
            heads: kv_heads * group,
            window,
            seqs: vec![[0, tokens]],
            prompt_tokens,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn chunks_and_pages_do_not_change_a_bit(
        spec in spec(),
        seed: u64,
        cuts in prop::collection::vec(1usize..90, 0..6),
        page_tokens in page_tokens(),
    ) {
        let tokens = spec.seqs[0][1];
        let mut chunks = Vec::new();
        for cut in cuts {
            chunks.push(cut.min(tokens - chunks.iter().sum::<usize>()));
        }
        chunks.push(tokens - chunks.iter().sum::<usize>());
        chunks.retain(|&chunk| 0 < chunk);
        for ops in every_level(2) {
            let mut whole = KvCase::new(spec.clone(), &mut SplitMix::new(seed));
            let want = whole.attend(&ops);
            let got = attend_in_chunks(&ops, &whole, page_tokens, &chunks);
            prop_assert!(
                got.iter().map(|x| x.to_bits()).eq(want.iter().map(|x| x.to_bits())),
                "{}: chunks {chunks:?} in pages of {page_tokens} differ from the whole",
                ops.level().name(),
            );
        }
    }

    #[test]
    fn pages_in_any_order_equal_plain_rows(mut spec in spec(), seed: u64, past in 0usize..200) {
        let tokens = spec.seqs[0][1];
        spec.seqs = vec![[past, 1 + tokens % 20], [past / 2, 1], [0, 1 + tokens % 7]];
        let mut case = KvCase::new(spec, &mut SplitMix::new(seed));
        let want = case.attention_wanted();
        for ops in every_level(2) {
            let got = case.attend(&ops);
            let error = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            // The matrix units multiply in bf16.
            let limit = if ops.level() == CpuLevel::Amx { 0.02 } else { 4e-6 };
            prop_assert!(error < limit, "{}: off by {error}", ops.level().name());
        }
    }
}
