//! Branches beside weights of every format, against the same numbers as plain weights.

use terrace_kernels::{Compute, CpuLevel, CpuOptions, Ops, WeightFormat};
use terrace_model::LoraKind;

use super::random_adapter::random_adapter;
use crate::weight_kinds::{TYPE_IDS, f32_twin, llama, logits_of, opened_model};

const KINDS: [LoraKind; 3] = [LoraKind::Default, LoraKind::RmsNorm, LoraKind::Dora];

/// Of the largest logit: f32 sums in another order.
const TOLERANCE: f32 = 2e-5;
/// A weight that its branch was added to is rounded to its own format once more.
const F16_TOLERANCE: f32 = 1e-2;
const BF16_TOLERANCE: f32 = 5e-2;

fn largest_difference(found: &[f32], wanted: &[f32]) -> f32 {
    let largest = wanted.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let off = found.iter().zip(wanted).map(|(found, wanted)| (found - wanted).abs());
    off.fold(0.0f32, f32::max) / largest
}

/// The twin's weights become one with their branches, the blocks' stay beside them.
#[test]
fn a_model_of_each_format_runs_as_its_f32_twin() {
    let ops = Ops::cpu(CpuOptions { threads: 2, level: None, compute: Compute::F32 });
    let ops = ops.expect("the processor's level");
    for (type_id, format) in TYPE_IDS.into_iter().zip(WeightFormat::ALL) {
        let seed = u64::from(type_id);
        let packed = opened_model(&llama(type_id, format, seed));
        let twin = opened_model(&f32_twin(type_id, format, seed));
        let plain = logits_of(&twin, None, &ops);
        for kind in KINDS {
            let adapter = random_adapter(&twin.0, kind, seed + 1, |_| true);
            let [found, wanted] =
                [&packed, &twin].map(|model| logits_of(model, Some(&adapter), &ops));
            let case = format!("{} {kind:?}", format.name());
            let tolerance = match format {
                WeightFormat::F16 => F16_TOLERANCE,
                WeightFormat::Bf16 => BF16_TOLERANCE,
                _ => TOLERANCE,
            };
            let off = largest_difference(&found, &wanted);
            assert!(off < tolerance, "{case}: {off}");
            let change = largest_difference(&wanted, &plain);
            assert!(0.01 < change, "{case} changes next to nothing: {change}");
        }
    }
}

/// Prompts and generated tokens, each in its own arithmetic.
#[test]
fn fast_arithmetic_comes_near() {
    let seed = 7;
    for level in CpuLevel::available() {
        let ops = |compute| {
            Ops::cpu(CpuOptions { threads: 2, level: Some(level), compute }).expect("a level")
        };
        let model = opened_model(&llama(8, WeightFormat::Q8_0, seed));
        for kind in KINDS {
            let adapter = random_adapter(&model.0, kind, seed, |_| true);
            let found = logits_of(&model, Some(&adapter), &ops(Compute::Fast));
            let wanted = logits_of(&model, Some(&adapter), &ops(Compute::F32));
            let off = largest_difference(&found, &wanted);
            assert!(off < 0.02, "{kind:?} at {}: {off}", level.name());
        }
    }
}
