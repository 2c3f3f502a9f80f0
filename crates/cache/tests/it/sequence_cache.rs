//! A served sequence: policies over any buffer against a dense cache, and positions that stay right
//! when sinks are far away.

use std::sync::Arc;

use terrace_cache::policy::{
    ArgValue, KvCacheOptions, KvCacheSpec, Policies, PolicyArgs, SlotFormat, SlotTable, TableShape,
};
use terrace_cache::reference::{AttentionShape, ChunkRows, SequenceCache, attend};
use terrace_testkit::Rng;

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DIM: usize = 8;

const SHAPE: AttentionShape = AttentionShape {
    heads: HEADS,
    kv_heads: KV_HEADS,
    key_dim: DIM,
    value_dim: DIM,
    scale: 0.35,
    window: None,
    soft_cap: None,
};

/// Rows of a whole sequence, `[heads][tokens][DIM]`.
struct Sequence {
    tokens: usize,
    query: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Sequence {
    fn random(rng: &mut Rng, tokens: usize) -> Self {
        let mut rows = |heads: usize| -> Vec<f32> {
            (0..heads * tokens * DIM).map(|_| rng.below(4001) as f32 / 1000.0 - 2.0).collect()
        };
        Sequence { tokens, query: rows(HEADS), keys: rows(KV_HEADS), values: rows(KV_HEADS) }
    }

    fn part(&self, rows: &[f32], start: usize, tokens: usize) -> Vec<f32> {
        let heads = rows.chunks_exact(self.tokens * DIM);
        heads.flat_map(|head| &head[start * DIM..(start + tokens) * DIM]).copied().collect()
    }

    /// Feeds chunks; gives the outputs, `[tokens][HEADS][DIM]`.
    fn run(&self, cache: &mut SequenceCache, chunks: &[usize]) -> Vec<f32> {
        let mut out = Vec::new();
        let mut start = 0;
        for &tokens in chunks {
            let [query, keys, values] =
                [&self.query, &self.keys, &self.values].map(|rows| self.part(rows, start, tokens));
            let chunk = ChunkRows { tokens, query: &query, keys: &keys, values: &values };
            out.extend(cache.step(chunk).expect("a chunk that fits").out);
            cache.table().check();
            start += tokens;
        }
        out
    }
}

fn cache(name: &str, slots: usize, args: &[(&str, ArgValue)], rotation: Vec<f32>) -> SequenceCache {
    let args = args.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let options = KvCacheOptions {
        name: name.to_owned(),
        cache_length: vec![slots],
        chunk_size: 1,
        randomize_chunk_sizes: false,
        cache_kwargs: PolicyArgs::new(args),
        compat: None,
    };
    let spec = KvCacheSpec::new(&options, &Policies::built_in(), &[[DIM; 2]]).expect("a spec");
    let rule = spec.rule(slots).expect("a rule");
    let rule = rule.for_sequence(&Default::default()).expect("no segment to look for");
    let shape = TableShape { kv_heads: KV_HEADS, slots };
    let table = SlotTable::new(Arc::clone(&spec.policy), rule, shape).expect("a table");
    SequenceCache::new(table, SHAPE, [spec.keys, spec.values], rotation)
}

#[test]
fn a_cache_longer_than_the_sequence_is_a_dense_one() {
    let mut rng = Rng::new(3);
    let sequence = Sequence::random(&mut rng, 24);
    let text = ("end_initial_regex", ArgValue::Text("x".into()));
    for buffer in SlotFormat::names() {
        let chunks = [9, 1, 6, 5, 1, 2];
        let dense = format!("dense-{buffer}");
        let want = sequence.run(&mut cache(&dense, 24, &[], Vec::new()), &chunks);
        for policy in Policies::built_in().names() {
            if policy.starts_with('q') && buffer == "default" {
                continue;
            }
            let args = if policy == "smart-lastrec" { vec![text.clone()] } else { Vec::new() };
            let mut cache = cache(&format!("{policy}-{buffer}"), 30, &args, Vec::new());
            assert_eq!(sequence.run(&mut cache, &chunks), want, "{policy}-{buffer}");
        }
    }
}

#[test]
fn a_row_reads_the_same_in_its_own_chunk_as_later() {
    let mut rng = Rng::new(4);
    let sequence = Sequence::random(&mut rng, 20);
    for buffer in SlotFormat::names() {
        let name = format!("dense-{buffer}");
        let whole = sequence.run(&mut cache(&name, 20, &[], Vec::new()), &[20]);
        let chunked = sequence.run(&mut cache(&name, 20, &[], Vec::new()), &[7, 1, 12]);
        assert_eq!(whole, chunked, "{buffer}");
    }
}

#[test]
fn keys_and_values_may_be_stored_differently() {
    let mut rng = Rng::new(5);
    let sequence = Sequence::random(&mut rng, 12);
    let out = |name: &str| sequence.run(&mut cache(name, 12, &[], Vec::new()), &[12]);
    let mixed = out("dense-default+torch-quantized4");
    assert_ne!(mixed, out("dense-torch-quantized4"));
    assert_ne!(mixed, out("dense-default"));
}

/// As if the sequence were the sinks and the window alone, at positions from 0 on.
#[test]
fn streamed_keys_lie_as_far_as_in_the_cache() {
    let rotation: Vec<f32> = (0..DIM / 2).map(|i| 10f32.powf(-(i as f32) / 2.0)).collect();
    let rotated = |rows: &[f32], tokens: usize, position: &dyn Fn(usize) -> usize| -> Vec<f32> {
        let mut rows = rows.to_vec();
        for (i, row) in rows.chunks_exact_mut(DIM).enumerate() {
            for (pair, angle) in rotation.iter().enumerate() {
                let (sin, cos) = (angle * position(i % tokens) as f32).sin_cos();
                let (a, b) = (row[pair], row[pair + DIM / 2]);
                row[pair] = a * cos - b * sin;
                row[pair + DIM / 2] = b * cos + a * sin;
            }
        }
        rows
    };
    let mut rng = Rng::new(6);
    let (slots, tokens) = (9, 40);
    let plain = Sequence::random(&mut rng, tokens);
    let absolute = Sequence {
        tokens,
        query: rotated(&plain.query, tokens, &|position| position),
        keys: rotated(&plain.keys, tokens, &|position| position),
        values: plain.values.clone(),
    };
    let mut cache = cache("streamingllm-default", slots, &[], rotation.clone());
    let chunks: Vec<usize> = std::iter::once(slots).chain([1; 31]).collect();
    let got = absolute.run(&mut cache, &chunks);
    for last in slots..tokens {
        let kept: Vec<usize> = (0..4).chain(last + 1 - (slots - 4)..last + 1).collect();
        let rows = |rows: &[f32]| -> Vec<f32> {
            let heads = rows.chunks_exact(tokens * DIM);
            heads
                .flat_map(|head| kept.iter().flat_map(|at| &head[at * DIM..][..DIM]))
                .copied()
                .collect()
        };
        let keys = rotated(&rows(&plain.keys), slots, &|place| place);
        let query = rotated(&plain.part(&plain.query, last, 1), 1, &|_| slots - 1);
        let positions: Vec<i32> = (0..slots as i32).collect::<Vec<_>>().repeat(KV_HEADS);
        let values = rows(&plain.values);
        let want = attend(&SHAPE, slots - 1, &query, &keys, &values, &positions).out;
        let got = &got[last * HEADS * DIM..][..HEADS * DIM];
        for (got, want) in got.iter().zip(&want) {
            assert!((got - want).abs() < 1e-4, "token {last}: {got}, wanted {want}");
        }
    }
}
