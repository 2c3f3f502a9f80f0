//! The reference of a fixed batch over shapes that golden data does not have.

use terrace_cache::policy::{KvCacheOptions, KvCacheSpec, Policies, SlotFormat};
use terrace_cache::reference::{BatchCall, BatchShape, FixedBatchCache, FixedBlocks};
use terrace_testkit::Rng;

#[test]
fn any_policy_runs_over_any_buffer_and_shape() {
    let mut rng = Rng::new(23);
    for round in 0..40 {
        let names: Vec<&str> = Policies::built_in()
            .names()
            .filter(|name| !name.starts_with("smart") && *name != "streamingllm")
            .collect();
        let buffers: Vec<&str> = SlotFormat::names().collect();
        let name = format!("{}-{}", rng.pick(&names), rng.pick(&buffers));
        if name.starts_with('q') && name.ends_with("-default") {
            continue;
        }
        let kv_heads = 1 + rng.below(3);
        let shape = BatchShape {
            rows: 1 + rng.below(3),
            heads: kv_heads * (1 + rng.below(2)),
            kv_heads,
            head_dim: *rng.pick(&[6, 8, 16, 48, 64]),
            slots: 10 + rng.below(20),
            scale: 0.3,
        };
        let mut options = KvCacheOptions::dense(shape.slots);
        options.set("name", &name).expect("an option");
        options.set("chunk_size", "5").expect("an option");
        options.set("compat", "keys_values").expect("an option");
        if name.contains("h2o") && !name.contains("orig") {
            options.set("grace_period", &rng.below(4).to_string()).expect("an option");
            options.set("normalize_scores", "true").expect("an option");
        }
        let dims = [shape.head_dim; 2];
        let spec = KvCacheSpec::new(&options, &Policies::built_in(), &[dims]).expect("a spec");
        let tokens = if name.starts_with("dense") { shape.slots } else { shape.slots + 20 };
        run(&mut rng, &spec, shape, tokens, round);
    }
}

fn run(rng: &mut Rng, spec: &KvCacheSpec, shape: BatchShape, tokens: usize, round: usize) {
    let mut cache = FixedBatchCache::new(spec, shape).expect("a cache");
    for tokens in spec.chunk_plan(tokens, 0) {
        let mut rows = |heads: usize| -> Vec<f32> {
            let count = shape.rows * heads * tokens * shape.head_dim;
            (0..count).map(|_| rng.below(2001) as f32 / 500.0 - 2.0).collect()
        };
        let call = BatchCall {
            tokens,
            query: &rows(shape.heads),
            keys: &rows(shape.kv_heads),
            values: &rows(shape.kv_heads),
            ids: &vec![1; shape.rows * tokens],
            text: None,
        };
        let step = cache.step(&call).unwrap_or_else(|error| panic!("{}: {error}", spec.name()));
        assert!(step.out.iter().all(|x| x.is_finite()), "{} in round {round}", spec.name());
        let sum: f32 = step.weights.iter().sum();
        let want = (shape.rows * shape.kv_heads * tokens) as f32;
        assert!((sum - want).abs() < want * 1e-4, "{}: weights sum to {sum}", spec.name());
        cache.requantise();
    }
    let newest = cache.seen_tokens() as i32 - 1;
    assert!(cache.positions().contains(&newest), "{}: the newest token", spec.name());
}

/// Whatever a block spans, no number moves by more than its widest step.
#[test]
fn blocks_may_span_heads_and_rows() {
    let mut rng = Rng::new(8);
    for (rows, kv_heads, dim) in [(2, 2, 8), (1, 4, 16), (2, 3, 32), (3, 2, 6)] {
        let count = rows * kv_heads * 5 * dim;
        let x: Vec<f32> = (0..count).map(|_| rng.below(2001) as f32 / 1000.0 - 1.0).collect();
        for name in SlotFormat::names() {
            let format = SlotFormat::named(name).expect("its own name");
            let blocks = FixedBlocks::new(format.quantiser(), rows, kv_heads, dim);
            let mut stored = x.clone();
            blocks.pass(&mut stored);
            let far = x.iter().zip(&stored).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let most = if name.ends_with('4') { 0.17 } else { 0.04 };
            assert!(far <= most, "{name} of {rows} rows, {kv_heads} heads of {dim}: {far}");
            assert_eq!(far == 0.0, name == "default", "{name}");
        }
    }
}
