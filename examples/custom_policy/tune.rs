//! A model learns with a policy of your own in place: gradients go through what it keeps.
//!
//!     cargo run --release --example tune_custom_policy -- path/to/model.gguf
//!
//! The policy is `fading.rs`, with which `main.rs` serves. Trained are branches beside queries and
//! values, on one text; without a path the model is a tiny one that says nothing of sense.

mod fading;

use std::error::Error;
use std::path::PathBuf;

use terrace_cache::policy::SlotFormat;
use terrace_cache::policy::{ArgValue, KvCacheOptions, KvCacheSpec, Policies, PolicyArgs};
use terrace_kernels::{Compute, CpuOptions, Ops};
use terrace_model::{AddSpecial, AttentionSpec, DecoderSpec, Families, LoadedModel};
use terrace_testkit::TinyModel;
use terrace_tune::head::Head;
use terrace_tune::optimiser::{OptimiserKind, OptimiserOptions, OptimiserStep};
use terrace_tune::{
    Batch, CellLength, GradientOptions, GradientPass, LatticeOptions, LoraKind, LoraOptions,
    LoraTargets, LossMean, Rounding, Training, TunedModel, WeightsAt,
};

use fading::FADING;

const TEXT: &str = "The quick brown fox jumps over the lazy dog, and the dog, who had been asleep \
                    since noon, looks up, yawns, and goes on sleeping until the fox is gone.";
const STEPS: u64 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let tiny = TinyModel::new();
    let path = std::env::args().nth(1).map_or(tiny.path(), PathBuf::from);
    for (step, loss) in losses(&path)?.into_iter().enumerate() {
        println!("step {step}: loss {loss:.4}");
    }
    Ok(())
}

/// The loss of each step, before it changes the branches.
fn losses(path: &std::path::Path) -> Result<Vec<f64>, Box<dyn Error>> {
    let LoadedModel { spec, tensors, text, .. } = LoadedModel::open(path, &Families::known())?;
    let ids = text.tokenizer.encode(TEXT, AddSpecial::Yes)?;
    let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
    let cache = cache(&spec)?;
    let ops = Ops::cpu(CpuOptions { threads: 2, level: None, compute: Compute::F32 })?;
    let ops = ops.tuning()?;
    let training = Training::Lora(LORA);
    let (head, at) = (Head::NextToken, WeightsAt::Device);
    let mut model = TunedModel::new(&ops, &spec, &tensors, training, head, at)?;
    let mut gradients = model.gradients(&ops)?;
    let optimiser = OptimiserOptions::new(OptimiserKind::AdamW);
    let mut adamw = optimiser.build(model.parameters())?;
    let batch = Batch { seqs: 1, ids: &ids[..ids.len() - 1], targets: &ids[1..] };
    let mut losses = Vec::new();
    for number in 1..=STEPS {
        gradients.clear(&ops);
        let pass =
            GradientPass { ops, model: &model, spec: &spec, cache: &cache, options: GRADIENTS };
        losses.push(pass.run(&batch, &mut gradients)?.loss);
        let step = OptimiserStep { number, learning_rate: 1e-2 };
        model.change(&ops, &mut |id, numbers| {
            adamw.change(id.index(), numbers, gradients.numbers(id), step);
        })?;
    }
    Ok(losses)
}

/// Half of the text does not fit.
fn cache(spec: &DecoderSpec) -> Result<KvCacheSpec, Box<dyn Error>> {
    let options = KvCacheOptions {
        name: "fading-torch-quantized8".into(),
        cache_length: vec![48],
        chunk_size: 16,
        randomize_chunk_sizes: false,
        cache_kwargs: PolicyArgs::new([("kept_share".to_owned(), ArgValue::Number(0.5))]),
        compat: None,
    };
    let dims = spec.layers.iter().map(|layer| {
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        [attention.head_dim; 2]
    });
    let dims: Vec<_> = dims.collect();
    Ok(KvCacheSpec::new(&options, &Policies::built_in().with(FADING), &dims)?)
}

const LORA: LoraOptions = LoraOptions {
    rank: 8,
    alpha: 16.0,
    kind: LoraKind::Default,
    targets: LoraTargets::QUERY_VALUE,
    dropout: 0.0,
    seed: 1,
};

const GRADIENTS: GradientOptions = GradientOptions {
    loss_mean: LossMean::Targets,
    rounding: Rounding::EachRow,
    dropout_seed: 0,
    lattice: LatticeOptions {
        layers_per_cell: 1,
        cell_length: CellLength::Slots { multiplier: 1.0 },
        single_tokens_for_targets: false,
        chunk_seed: 0,
    },
    layer_checkpoints: SlotFormat::Plain,
    kv_checkpoints: SlotFormat::Plain,
    kv_on_host: false,
    logits_most: 1 << 22,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_falls_through_a_cache_that_forgets() {
        let losses = losses(&TinyModel::new().path()).expect("a small case");
        assert_eq!(losses.len(), STEPS as usize);
        assert!(losses[STEPS as usize - 1] < 0.9 * losses[0], "{losses:?}");
    }
}
