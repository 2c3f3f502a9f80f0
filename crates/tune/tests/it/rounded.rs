//! Products of bf16 change gradients by no more than their rounding.

use terrace_kernels::{Compute, CpuOptions, Ops};
use terrace_tune::{Batch, GradientPass, LoraKind, LoraOptions, LoraTargets, Training};

use crate::small_model::{Shape, SmallModel, batch, ops, options, replayed};

/// A product of two numbers with 8 bits each is off by 2^-8 at most, and errors of many meet in a
/// gradient, most where much cancels: beside queries and keys. Of an array's norm, the most that
/// was seen with 24 models is 0.045.
const ROUNDING: f64 = 0.08;

#[track_caller]
fn check(cache: &str, training: Training) {
    let exact = ops();
    let fast = CpuOptions { threads: 2, level: None, compute: Compute::Fast };
    let fast = Ops::cpu(fast).expect("a small case");
    let shape = Shape {
        layers: 3,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        hidden: 64,
        biased: true,
        head_norms: true,
        tied: false,
    };
    let (tokens, seed) = (90, 20_261_119);
    let small = SmallModel::new(shape, tokens, seed);
    let model = small.tuned(&exact.tuning().expect("a small case"), training, seed);
    // Chunks long enough for the ops of many queries.
    let cache = small.cache(cache, 40, 20);
    let [ids, targets] = batch(tokens, tokens, seed);
    let batch = Batch { seqs: 2, ids: &ids, targets: &targets };
    let (spec, options) = (&small.spec, options(2, 1.0));
    let [exact, fast] = [&exact, &fast].map(|ops| ops.tuning().expect("a small case"));
    let pass = GradientPass { ops: exact, model: &model, spec, cache: &cache, options };
    let mut want = model.gradients(&exact).expect("a small case");
    let found = pass.run(&batch, &mut want).expect("a small case");
    let (loss, got) = replayed(&GradientPass { ops: fast, ..pass }, &batch, &found.replay);
    assert!((loss - found.loss).abs() < ROUNDING * found.loss, "{loss} is not {}", found.loss);
    for (info, (got, want)) in model.parameters().iter().zip(got.all().zip(want.all())) {
        let norm = |numbers: &mut dyn Iterator<Item = f32>| {
            numbers.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt()
        };
        let apart = norm(&mut got.iter().zip(want).map(|(got, want)| got - want));
        let far = apart / norm(&mut want.iter().copied());
        assert!(far < ROUNDING, "{}: {far} of its norm apart", info.name);
    }
}

#[test]
fn gradients_of_branches_are_near() {
    let targets = LoraTargets { head: false, ..LoraTargets::ALL };
    let kind = LoraKind::Default;
    check(
        "lastrec-default",
        Training::Lora(LoraOptions { rank: 3, alpha: 4.0, kind, targets, dropout: 0.0, seed: 5 }),
    );
}

#[test]
fn gradients_of_all_weights_are_near() {
    check("h2o-default", Training::Full);
}
