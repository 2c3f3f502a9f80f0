//! Cells, rows and what is kept between them change no gradient.

use proptest::prelude::*;
use terrace_cache::policy::SlotFormat;
use terrace_tune::{
    Batch, BatchReplay, GradientOptions, GradientPass, Gradients, LoraKind, LoraOptions,
    LoraTargets, ParameterInfo, Training, TunedModel,
};

use crate::small_model::{Shape, SmallModel, batch, ops, options, replayed};

/// The largest difference of any array, relative to its largest entry.
fn difference(parameters: &[ParameterInfo], got: &Gradients, want: &Gradients) -> (f32, String) {
    let mut worst = (0.0, String::new());
    for (info, (got, want)) in parameters.iter().zip(got.all().zip(want.all())) {
        let largest = want.iter().fold(f32::MIN_POSITIVE, |most, x| most.max(x.abs()));
        let far = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest;
        if far > worst.0 || far.is_nan() {
            worst = (far, info.name.clone());
        }
    }
    worst
}

struct Case<'a> {
    small: &'a SmallModel,
    model: &'a TunedModel,
    cache: &'a terrace_cache::policy::KvCacheSpec,
    batch: Batch<'a>,
}

impl Case<'_> {
    fn pass<'p>(
        &'p self,
        ops: &'p terrace_kernels::Ops,
        options: GradientOptions,
    ) -> GradientPass<'p> {
        GradientPass {
            ops: ops.tuning().expect("a small case"),
            model: self.model,
            spec: &self.small.spec,
            cache: self.cache,
            options,
        }
    }

    /// In one cell of all layers: plain backward over the whole sequence, with nothing in between.
    fn whole(
        &self,
        ops: &terrace_kernels::Ops,
        base: GradientOptions,
    ) -> (f64, BatchReplay, Gradients) {
        let mut options = options(self.model_layers(), 1e6);
        options.lattice.single_tokens_for_targets = base.lattice.single_tokens_for_targets;
        let pass = self.pass(ops, options);
        let lattice = pass.lattice(&self.batch).expect("a small case");
        assert_eq!((lattice.cells().len(), lattice.rows().len()), (1, 1));
        let mut gradients = self.model.gradients(&pass.ops).expect("a small case");
        let found = pass.run(&self.batch, &mut gradients).expect("a small case");
        (found.loss, found.replay, gradients)
    }

    fn model_layers(&self) -> usize {
        self.small.spec.layers.len()
    }
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let extents = (1usize..5, 1usize..3, 1usize..4, prop::sample::select(vec![4usize, 8, 12]));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (extents, flags).prop_map(
        |((layers, kv_heads, group, head_dim), (biased, head_norms, tied))| {
            let heads = kv_heads * group;
            Shape { layers, heads, kv_heads, head_dim, hidden: 14, biased, head_norms, tied }
        },
    )
}

fn any_training() -> impl Strategy<Value = Training> {
    let kinds = vec![LoraKind::Default, LoraKind::RmsNorm, LoraKind::Dora];
    let lora = (prop::sample::select(kinds), any::<bool>()).prop_map(|(kind, drops)| {
        let dropout = if drops && kind != LoraKind::Dora { 0.3 } else { 0.0 };
        let targets = LoraTargets { head: false, ..LoraTargets::ALL };
        Training::Lora(LoraOptions { rank: 3, alpha: 4.0, kind, targets, dropout, seed: 5 })
    });
    prop_oneof![Just(Training::Full), lora]
}

/// Sums of f32 that are cut otherwise round otherwise, through all layers above: of a tensor's
/// largest entry, the most that was seen is 1.1e-6.
const ROUNDING: f32 = 2e-6;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn gradients_do_not_depend_on_cells(
        shape in any_shape(),
        training in any_training(),
        policy in prop::sample::select(vec!["h2o-default", "lastrec-default", "h2o-vlen-default"]),
        (slots, chunk) in (12usize..30, 2usize..6),
        (tokens, targets) in (31usize..70, 3usize..30),
        layers_per_cell in 1usize..4,
        multiplier in prop::sample::select(vec![0.1, 0.5, 1.0, 2.5]),
        single_tokens: bool,
        seed: u64,
    ) {
        let ops = ops();
        let small = SmallModel::new(shape, tokens, seed);
        let model = small.tuned(&ops.tuning().expect("a small case"), training, seed);
        let cache = small.cache(policy, slots, chunk);
        let [ids, targets] = batch(tokens, targets, seed);
        let batch = Batch { seqs: 2, ids: &ids, targets: &targets };
        prop_assume!(targets.iter().any(|target| *target >= 0));
        let case = Case { small: &small, model: &model, cache: &cache, batch };
        let mut options = options(layers_per_cell, multiplier);
        options.lattice.single_tokens_for_targets = single_tokens;
        let (loss, replay, want) = case.whole(&ops, options);
        let pass = case.pass(&ops, options);
        pass.lattice(&batch).expect("a small case").check();
        let (found_loss, got) = replayed(&pass, &batch, &replay);
        let (far, name) = difference(model.parameters(), &got, &want);
        prop_assert!(far <= ROUNDING, "{name}: {far}");
        prop_assert!((loss - found_loss).abs() <= 1e-6 * loss.abs().max(1.0), "{found_loss}");
        // The policy decides alike, however it is cut.
        let mut gradients = model.gradients(&pass.ops).expect("a small case");
        let again = pass.run(&batch, &mut gradients).expect("a small case");
        prop_assert_eq!(again.replay, replay);
    }
}

/// Rounded checkpoints give other gradients, by about what they are rounded by.
#[test]
fn quantised_checkpoints_are_near_plain_ones() {
    let ops = ops();
    let shape = Shape {
        layers: 3,
        heads: 4,
        kv_heads: 2,
        head_dim: 8,
        hidden: 16,
        biased: false,
        head_norms: true,
        tied: false,
    };
    let small = SmallModel::new(shape, 60, 3);
    let model = small.tuned(&ops.tuning().expect("a small case"), Training::Full, 3);
    let cache = small.cache("h2o-default", 16, 4);
    let [ids, targets] = batch(60, 20, 3);
    let batch = Batch { seqs: 2, ids: &ids, targets: &targets };
    let case = Case { small: &small, model: &model, cache: &cache, batch };
    for layers_per_cell in [1, 3] {
        let plain = options(layers_per_cell, 0.5);
        let (_, replay, want) = case.whole(&ops, plain);
        for (name, most) in [("torch-quantized8", 0.06), ("torch-quantized4", 0.9)] {
            let format = SlotFormat::named(name).expect("a small case");
            let of_layers = GradientOptions { layer_checkpoints: format, ..plain };
            let of_kv = GradientOptions { kv_checkpoints: format, ..plain };
            for options in [of_layers, of_kv] {
                let (_, got) = replayed(&case.pass(&ops, options), &batch, &replay);
                let (far, array) = difference(model.parameters(), &got, &want);
                println!("{name}, {layers_per_cell} layers a cell: {far:.1e} in {array}");
                assert!(0.0 < far && far <= most, "{name}: {far} in {array}");
            }
        }
    }
}
