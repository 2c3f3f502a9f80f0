//! A model of the golden runs: LitGPT's configuration and names of tensors.

use std::sync::Arc;

use serde::Deserialize;
use terrace_device::Buffer;
use terrace_golden::GoldenTensors;
use terrace_kernels::{Activation, BiasedWeight, Matrix, RopeStyle, WeightFormat};
use terrace_model::{
    AttentionSpec, DecoderSpec, DecoderTensors, FfnSpec, GatedSpec, GroupedQuerySpec, LayerSpec,
    LayerTensors, ModelConfig, TrainedRope,
};

use crate::error::Error;

#[derive(Clone, Debug, Deserialize)]
pub struct LitGptConfig {
    pub block_size: usize,
    pub head_size: usize,
    intermediate_size: usize,
    pub n_embd: usize,
    pub n_head: usize,
    pub n_layer: usize,
    pub n_query_groups: usize,
    norm_eps: f32,
    pub padded_vocab_size: usize,
    rope_base: f64,
    rope_n_elem: usize,
    attn_bias: bool,
    norm_qk: bool,
    parallel_residual: bool,
    scale_embeddings: bool,
    lm_head_bias: bool,
    mlp_class_name: String,
    norm_class_name: String,
    /// Of a model with branches.
    #[serde(default)]
    pub lora_r: usize,
    #[serde(default)]
    pub lora_alpha: f32,
}

impl LitGptConfig {
    /// Whether one of our families has such layers.
    pub fn is_known(&self) -> bool {
        self.mlp_class_name == "LLaMAMLP"
            && self.norm_class_name == "RMSNorm"
            && !self.parallel_residual
            && !self.scale_embeddings
            && !self.lm_head_bias
    }

    /// For sequences of `tokens`, as the original scales its rotation for them.
    pub fn spec(&self, tokens: usize, yarn: bool) -> Result<DecoderSpec, Error> {
        let config = serde_json::json!({ "rope_theta": self.rope_base }).to_string();
        let config = ModelConfig::from_json(&config)?;
        let (settings, style) = (config.rope_settings(), RopeStyle::Halves);
        let trained =
            TrainedRope::new(&settings, self.rope_n_elem, self.head_size, self.block_size, style)?;
        let linear = trained.linear(tokens);
        let attention = AttentionSpec::GroupedQuery(GroupedQuerySpec {
            heads: self.n_head,
            kv_heads: self.n_query_groups,
            head_dim: self.head_size,
            scale: linear.attn_scale,
            rope: 0,
            window: None,
        });
        let width = self.intermediate_size;
        let ffn = FfnSpec::Gated(GatedSpec { width, activation: Activation::Silu });
        let spec = DecoderSpec {
            vocab: self.padded_vocab_size,
            hidden: self.n_embd,
            context_tokens: self.block_size,
            norm_eps: self.norm_eps,
            ropes: vec![linear.rope],
            trained_rope: Some(trained),
            dynamic_rope: None,
            layers: vec![LayerSpec { attention, ffn }; self.n_layer],
            tied_head: false,
        };
        let scaled = if yarn { spec.scaled(tokens) } else { Some(spec) };
        // Space for what follows the last token.
        let mut spec = scaled.ok_or_else(|| Error::Unsupported {
            what: "this rotation".into(),
            why: "it cannot be scaled for longer sequences",
        })?;
        spec.context_tokens = tokens + 1;
        spec.check()?;
        Ok(spec)
    }

    /// Frequencies as the original rounds them, which computes in f32: over long distances the last
    /// bits of an angle are more than a gradient may differ by.
    pub fn round_frequencies(&self, spec: &mut DecoderSpec, tokens: usize, yarn: bool) {
        let trained = self.block_size as f32;
        let factor = (tokens as f32 / trained).max(1.0);
        let frequency = |pair: usize| {
            let share = (2 * pair) as f32 / self.rope_n_elem as f32;
            let plain = 1.0 / (self.rope_base as f32).powf(share);
            let rotations = trained * plain / std::f32::consts::TAU;
            let kept = if yarn { ((rotations - 1.0) / 31.0).clamp(0.0, 1.0) } else { 0.0 };
            (1.0 - kept) * (plain / factor) + kept * plain
        };
        spec.ropes[0].inv_freq = (0..self.rope_n_elem / 2).map(frequency).collect();
    }

    pub fn tensors(&self, weights: &GoldenTensors) -> Result<DecoderTensors, Error> {
        let finder = Finder { weights };
        let vocab = self.padded_vocab_size;
        Ok(DecoderTensors {
            embed: finder.matrix("transformer.wte", vocab, self.n_embd)?,
            layers: (0..self.n_layer)
                .map(|layer| self.layer(&finder, &format!("transformer.h.{layer}")))
                .collect::<Result<_, Error>>()?,
            final_norm: finder.vector("transformer.ln_f.weight", self.n_embd)?,
            head: Some(finder.matrix("lm_head", vocab, self.n_embd)?),
            adapter: None,
        })
    }

    fn layer(&self, finder: &Finder<'_>, layer: &str) -> Result<LayerTensors, Error> {
        let (hidden, ffn, dim) = (self.n_embd, self.intermediate_size, self.head_size);
        let name = |part: &str| format!("{layer}.{part}");
        let norm = |part: &str| match self.norm_qk {
            true => finder.vector(&name(part), dim).map(Some),
            false => Ok(None),
        };
        let [query, key, value] = self.qkv(finder, &name("attn.qkv"))?;
        let linear = |part: &str, rows, columns| -> Result<BiasedWeight, Error> {
            Ok(BiasedWeight { weight: finder.matrix(&name(part), rows, columns)?, bias: None })
        };
        Ok(LayerTensors {
            attention_norm: finder.vector(&name("norm_1.weight"), hidden)?,
            query,
            key,
            value,
            query_norm: norm("attn.norm_q.weight")?,
            key_norm: norm("attn.norm_k.weight")?,
            output: linear("attn.proj", hidden, self.n_head * dim)?,
            ffn_norm: finder.vector(&name("norm_2.weight"), hidden)?,
            gate: linear("mlp.fc_1", ffn, hidden)?,
            up: linear("mlp.fc_2", ffn, hidden)?,
            down: linear("mlp.proj", hidden, ffn)?,
        })
    }

    /// Rows of queries, then of keys, then of values.
    fn qkv(&self, finder: &Finder<'_>, name: &str) -> Result<[BiasedWeight; 3], Error> {
        let hidden = self.n_embd;
        let heads = [self.n_head, self.n_query_groups, self.n_query_groups];
        let all = heads.iter().sum::<usize>() * self.head_size;
        let weight = finder.numbers(name, [all, hidden])?;
        let bias = match self.attn_bias {
            true => Some(finder.vector(&format!("{name}.bias"), all)?),
            false => None,
        };
        let mut start = 0;
        let mut parts = Vec::new();
        for heads in heads {
            let rows = start..start + heads * self.head_size;
            let weight =
                matrix(&weight[rows.start * hidden..rows.end * hidden], rows.len(), hidden)?;
            let bias = bias.as_ref().map(|bias| bias[rows.clone()].to_vec());
            parts.push(BiasedWeight { weight, bias });
            start = rows.end;
        }
        Ok(parts.try_into().unwrap_or_else(|_| unreachable!("three parts were made")))
    }
}

struct Finder<'a> {
    weights: &'a GoldenTensors,
}

impl Finder<'_> {
    fn vector(&self, name: &str, numbers: usize) -> Result<Vec<f32>, Error> {
        Ok(self.weights.f32(name, [numbers])?.to_vec())
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, Error> {
        matrix(self.numbers(name, [rows, columns])?, rows, columns)
    }

    /// With a branch beside it, a weight has one more part in its name.
    fn numbers(&self, name: &str, shape: [usize; 2]) -> Result<&[f32], Error> {
        let beside = format!("{name}.linear.weight");
        let plain = format!("{name}.weight");
        let name = if self.weights.has(&beside) { beside } else { plain };
        Ok(self.weights.f32(&name, shape)?)
    }
}

fn matrix(numbers: &[f32], rows: usize, columns: usize) -> Result<Matrix, Error> {
    let mut buffer = Buffer::zeroed(size_of_val(numbers), "golden weights")?;
    let bytes = numbers.iter().flat_map(|x| x.to_le_bytes());
    buffer.bytes_mut().iter_mut().zip(bytes).for_each(|(out, byte)| *out = byte);
    Ok(Matrix::new(WeightFormat::F32, rows, columns, Arc::new(buffer)))
}
