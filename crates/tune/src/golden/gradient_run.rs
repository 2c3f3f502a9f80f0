//! What the manifest says about a run of gradients, and what it is here.

use serde::Deserialize;
use serde_json::{Map, Value};
use terrace_cache::policy::{
    ArgValue, KvCacheOptions, KvCacheSpec, Policies, PolicyArgs, PolicyError, SlotFormat,
};
use terrace_golden::GoldenTensors;

use super::litgpt_model::LitGptConfig;
use crate::error::Error;
use crate::gradient_options::GradientOptions;
use crate::loss_factors::LossMean;
use crate::model::{LoraKind, LoraOptions, LoraTargets, Training};
use crate::plan::{CellLength, LatticeOptions};
use crate::slots::Rounding;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct GradientRun {
    pub weights: String,
    pub config: LitGptConfig,
    pub yarn: bool,
    pub lora: bool,
    pub average_loss_per_batch: bool,
    cache_name: String,
    cache_length: usize,
    chunk_size: usize,
    #[serde(default)]
    cache_kwargs: Map<String, Value>,
    pub checkpoint_quantizer: String,
    layers_per_cell: usize,
    chunks_per_cell_multiplier: f64,
    #[serde(default)]
    single_tokens_for_targets: bool,
    pub chunk_sizes: Vec<usize>,
    pub chunks_per_cell: Vec<usize>,
    /// Smallest difference of scores that decided.
    pub min_score_gap: Option<f32>,
}

impl GradientRun {
    /// Newest tokens that stay in a ring of slots, and move to others when it comes round.
    pub fn ring_slots(&self) -> usize {
        let grace = self.cache_kwargs.get("grace_period").and_then(Value::as_u64);
        grace.unwrap_or(0) as usize
    }

    /// The original keeps zero points of quantised checkpoints in a byte, and gradients in them.
    pub fn has_quantised_checkpoints(&self) -> bool {
        self.checkpoint_quantizer != "default"
    }

    /// The cache, with the original's rules.
    pub fn cache(&self) -> Result<KvCacheSpec, PolicyError> {
        let args = self.cache_kwargs.iter().filter(|(_, value)| !value.is_null());
        let args = args.map(|(key, value)| {
            let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (key.clone(), ArgValue::parse(&word))
        });
        let options = KvCacheOptions {
            name: self.cache_name.clone(),
            cache_length: vec![self.cache_length],
            chunk_size: self.chunk_size,
            randomize_chunk_sizes: false,
            cache_kwargs: PolicyArgs::new(args),
            compat: Some("keys_values".into()),
        };
        let dims = vec![[self.config.head_size; 2]; self.config.n_layer];
        KvCacheSpec::new(&options, &Policies::built_in(), &dims)
    }

    pub fn options(&self) -> Result<GradientOptions, Error> {
        let name = &self.checkpoint_quantizer;
        let format = SlotFormat::named(name).ok_or_else(|| Error::BadArgument {
            argument: "grad.layercp_qname",
            value: name.clone(),
            wanted: SlotFormat::names().collect::<Vec<_>>().join(", "),
        })?;
        let config = &self.config;
        let mean = self.average_loss_per_batch;
        Ok(GradientOptions {
            loss_mean: if mean { LossMean::Targets } else { LossMean::Sequences },
            rounding: Rounding::EachCell,
            dropout_seed: 0,
            lattice: LatticeOptions {
                layers_per_cell: self.layers_per_cell,
                cell_length: CellLength::KeysValues {
                    multiplier: self.chunks_per_cell_multiplier,
                    kv_width: config.n_query_groups * config.head_size,
                    hidden: config.n_embd,
                },
                single_tokens_for_targets: self.single_tokens_for_targets,
                chunk_seed: 0,
            },
            layer_checkpoints: format,
            kv_checkpoints: format,
            kv_on_host: false,
            // A few blocks of the vocabulary.
            logits_most: 1 << 9,
        })
    }

    pub fn training(&self, weights: &GoldenTensors) -> Result<Training, Error> {
        if !self.lora {
            return Ok(Training::Full);
        }
        Ok(Training::Lora(LoraOptions {
            rank: self.config.lora_r,
            alpha: self.config.lora_alpha,
            kind: LoraKind::Default,
            targets: self.targets(weights)?,
            dropout: 0.0,
            seed: 0,
        }))
    }

    /// The products that have a branch. Queries, keys and values share one array each, in which
    /// two of them differ in their extents alone: keys have as many rows as values.
    fn targets(&self, weights: &GoldenTensors) -> Result<LoraTargets, Error> {
        let has = |name: &str| weights.has(&format!("{name}.lora_A"));
        let layer = |part: &str| has(&format!("transformer.h.0.{part}"));
        let [mut query, mut key, mut value] = [false; 3];
        if layer("attn.qkv") {
            let [a_rows, _] = weights.dims("transformer.h.0.attn.qkv.lora_A")?;
            let [b_rows, _] = weights.dims("transformer.h.0.attn.qkv.lora_B")?;
            let config = &self.config;
            let kv_rows = config.n_query_groups * config.head_size;
            let branches = a_rows / config.lora_r.max(1);
            query = branches * kv_rows != b_rows || branches == 3;
            value = branches > 1 || !query;
            key = branches == 3 || (branches == 2 && !query);
        }
        let (projection, mlp) = (layer("attn.proj"), layer("mlp.fc_1"));
        Ok(LoraTargets { query, key, value, projection, mlp, head: has("lm_head") })
    }
}
