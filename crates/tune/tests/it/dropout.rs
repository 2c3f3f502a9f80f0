//! Branches that leave out some of their inputs.

use terrace_kernels::TuneOps;
use terrace_tune::{
    Batch, BatchReplay, GradientOptions, GradientPass, LoraKind, LoraOptions, LoraTargets,
    Training, TunedModel,
};

use crate::small_model::{Shape, SmallModel, batch, ops, options, replayed};

const SHAPE: Shape = Shape {
    layers: 2,
    heads: 2,
    kv_heads: 1,
    head_dim: 4,
    hidden: 12,
    biased: true,
    head_norms: false,
    tied: true,
};
const TOKENS: usize = 30;
const SEED: u64 = 4;

struct Case {
    small: SmallModel,
    cache: terrace_cache::policy::KvCacheSpec,
    batch: [Vec<i32>; 2],
}

impl Case {
    fn new() -> Self {
        let small = SmallModel::new(SHAPE, TOKENS, SEED);
        let cache = small.cache("h2o-default", 12, 4);
        Case { small, cache, batch: batch(TOKENS, 20, SEED) }
    }

    fn model(&self, ops: &TuneOps<'_>, kind: LoraKind, dropout: f32) -> TunedModel {
        let targets = LoraTargets { head: false, ..LoraTargets::ALL };
        let lora = LoraOptions { rank: 3, alpha: 4.0, kind, targets, dropout, seed: 5 };
        self.small.tuned(ops, Training::Lora(lora), SEED)
    }

    fn pass<'a>(
        &'a self,
        ops: TuneOps<'a>,
        model: &'a TunedModel,
        options: GradientOptions,
    ) -> GradientPass<'a> {
        GradientPass { ops, model, spec: &self.small.spec, cache: &self.cache, options }
    }

    fn batch(&self) -> Batch<'_> {
        Batch { seqs: 2, ids: &self.batch[0], targets: &self.batch[1] }
    }

    fn replay(&self, ops: TuneOps<'_>, model: &TunedModel) -> (f64, BatchReplay) {
        let mut gradients = model.gradients(&ops).expect("a small case");
        let found = self.pass(ops, model, options(1, 0.5)).run(&self.batch(), &mut gradients);
        let found = found.expect("a small case");
        (found.loss, found.replay)
    }
}

#[test]
fn gradients_are_those_of_the_loss_with_the_same_left_out() {
    let (case, ops) = (Case::new(), ops());
    let ops = ops.tuning().expect("a small case");
    // A norm of few numbers bends: there steps are small, and f32 sums are seen.
    for (kind, step, noise) in [(LoraKind::Default, 4e-3, 2e-4), (LoraKind::RmsNorm, 5e-4, 4e-3)] {
        let mut model = case.model(&ops, kind, 0.4);
        let (_, replay) = case.replay(ops, &model);
        let (_, gradients) =
            replayed(&case.pass(ops, &model, options(1, 0.5)), &case.batch(), &replay);
        let gradients: Vec<Vec<f32>> = gradients.all().map(<[f32]>::to_vec).collect();
        let moved = |model: &mut TunedModel, array: usize, at: usize, by: f32| {
            model
                .change(&ops, &mut |id, numbers| {
                    if id.index() == array {
                        numbers[at] += by;
                    }
                })
                .unwrap();
        };
        for (array, gradient) in gradients.iter().enumerate() {
            // The entry that changes most: f32 sums hide the others.
            let at = (0..gradient.len())
                .max_by(|a, b| gradient[*a].abs().total_cmp(&gradient[*b].abs()));
            let at = at.expect("no array is empty");
            let losses = [step, -2.0 * step].map(|by| {
                moved(&mut model, array, at, by);
                replayed(&case.pass(ops, &model, options(1, 0.5)), &case.batch(), &replay).0
            });
            moved(&mut model, array, at, step);
            let found = (losses[0] - losses[1]) / f64::from(2.0 * step);
            let (want, name) = (f64::from(gradient[at]), &model.parameters()[array].name);
            let far = (found - want).abs();
            assert!(far < 0.03 * want.abs() + noise, "{kind:?} {name}: {found}, not {want}");
        }
    }
}

#[test]
fn seeds_leave_out_others_and_a_loss_alone_nothing() {
    let (case, ops) = (Case::new(), ops());
    let ops = ops.tuning().expect("a small case");
    let [whole, cut] = [0.0, 0.4].map(|share| case.model(&ops, LoraKind::Default, share));
    let (loss, replay) = case.replay(ops, &whole);
    let loss_with = |seed: u64| {
        let options = GradientOptions { dropout_seed: seed, ..options(1, 0.5) };
        replayed(&case.pass(ops, &cut, options), &case.batch(), &replay).0
    };
    assert_eq!(loss_with(1), loss_with(1));
    assert_ne!(loss_with(1), loss_with(2));
    let alone = case.pass(ops, &cut, options(1, 0.5)).loss(&case.batch());
    let alone = alone.expect("a small case");
    assert!((alone - loss).abs() < 1e-6, "{alone} is not {loss}");
}
