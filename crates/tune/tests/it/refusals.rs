//! What cannot be tuned, or not so, is said with its numbers.

use terrace_cache::policy::SlotFormat;
use terrace_kernels::Ops;
use terrace_tune::{
    Batch, CellLength, Error, GradientOptions, GradientPass, LoraKind, LoraOptions, LoraTargets,
    Training, TunedModel,
};

use crate::small_model::{Shape, SmallModel, VOCAB, batch, ops, options};

const SHAPE: Shape = Shape {
    layers: 2,
    heads: 2,
    kv_heads: 1,
    head_dim: 4,
    hidden: 6,
    biased: false,
    head_norms: false,
    tied: true,
};

/// Runs a batch of 30 tokens, after `change` has had its way; gives the error.
#[track_caller]
fn refused(
    policy: &str,
    change: impl FnOnce(&mut GradientOptions, &mut Vec<i32>, &mut Vec<i32>),
) -> String {
    let ops = ops();
    let small = SmallModel::new(SHAPE, 30, 1);
    let model = small.tuned(&ops.tuning().expect("a small case"), Training::Full, 1);
    let cache = small.cache(policy, 12, 3);
    let mut options = options(1, 1.0);
    let [mut ids, mut targets] = batch(30, 5, 1);
    change(&mut options, &mut ids, &mut targets);
    let tune = ops.tuning().expect("a small case");
    let pass = GradientPass { ops: tune, model: &model, spec: &small.spec, cache: &cache, options };
    let batch = Batch { seqs: 2, ids: &ids, targets: &targets };
    let mut gradients = model.gradients(&tune).expect("a small case");
    pass.run(&batch, &mut gradients).err().expect("an error").to_string()
}

#[test]
fn bad_batches_and_options_are_errors() {
    let no_change = |_: &mut GradientOptions, _: &mut Vec<i32>, _: &mut Vec<i32>| {};
    let error = refused("h2o-default", |_, ids, _| ids[7] = VOCAB as i32);
    assert!(error.contains("token id is 23") && error.contains("from 0 to 22"), "{error}");
    let error = refused("h2o-default", |_, _, targets| targets[0] = 99);
    assert!(error.contains("target is 99"), "{error}");
    let error = refused("h2o-default", |_, ids, _| ids.truncate(59));
    assert!(error.contains("59 ids of 2 sequences"), "{error}");
    let error = refused("h2o-default", |_, _, targets| targets.clear());
    assert!(error.contains("0 targets of 2 sequences"), "{error}");
    let error = refused("h2o-default", |options, _, _| options.lattice.layers_per_cell = 0);
    assert!(error.contains("grad.layers_per_cell is 0"), "{error}");
    let error = refused("h2o-default", |options, _, _| {
        options.lattice.cell_length = CellLength::Slots { multiplier: 0.05 };
    });
    assert!(error.contains("chunks_per_cell_multiplier is 0.05"), "{error}");
    let error = refused("h2o-default", |options, _, _| {
        options.layer_checkpoints = SlotFormat::named("torch-quantized4").expect("a small case");
    });
    assert!(error.contains("grad.layercp_qname is torch-quantized4"), "{error}");
    let error = refused("streamingllm-default", no_change);
    assert!(error.contains("streamingllm cannot be tuned"), "{error}");
    let error = refused("dense-default", no_change);
    assert!(error.contains("12"), "{error}");
}

#[test]
fn branches_that_cannot_be_are_errors() {
    let ops: Ops = ops();
    let small = SmallModel::new(SHAPE, 30, 1);
    let tune = ops.tuning().expect("a small case");
    let refused = |options: LoraOptions, tied: bool| -> Error {
        let small = if tied { &small } else { &SmallModel::new(Shape { tied, ..SHAPE }, 30, 1) };
        let built: Result<TunedModel, Error> = small.try_tuned(&tune, Training::Lora(options));
        built.err().expect("refused")
    };
    let plain = LoraOptions {
        rank: 2,
        alpha: 4.0,
        kind: LoraKind::Default,
        targets: LoraTargets::ALL,
        dropout: 0.0,
        seed: 0,
    };
    let error = refused(plain, true).to_string();
    assert!(error.contains("embedding table"), "{error}");
    let error = refused(LoraOptions { kind: LoraKind::Dora, ..plain }, false).to_string();
    assert!(error.contains("lora.head"), "{error}");
    let error = refused(LoraOptions { rank: 0, ..plain }, false).to_string();
    assert!(error.contains("lora.r is 0"), "{error}");
    let error = refused(LoraOptions { dropout: 1.0, ..plain }, false).to_string();
    assert!(error.contains("lora.dropout is 1; it must be from 0 to below 1"), "{error}");
    for (kind, targets) in
        [(LoraKind::Default, LoraTargets::ALL), (LoraKind::Dora, LoraTargets::QUERY_VALUE)]
    {
        let options = LoraOptions { kind, targets, dropout: 0.1, ..plain };
        let error = refused(options, false).to_string();
        assert!(error.contains("leave lora.dropout"), "{error}");
    }
}
