//! Shapes of published decoders, by name: what can be measured without a model's files.
//!
//! Numbers only. Rotations are plain: how a model scales them for longer contexts changes what
//! it says, not what it costs.

use terrace_kernels::{Activation, RopeStyle};

use crate::decoder_spec::DecoderSpec;
use crate::layer_spec::{AttentionSpec, FfnSpec, GatedSpec, GroupedQuerySpec, LayerSpec};
use crate::rope_spec::RopeSpec;

/// A decoder whose layers are all alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownShape {
    pub name: &'static str,
    pub vocab: usize,
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub ffn_width: usize,
    pub context_tokens: usize,
    pub rope_theta: f64,
    pub norm_eps: f32,
    pub tied_head: bool,
}

impl KnownShape {
    pub const ALL: [KnownShape; 4] = [
        KnownShape {
            name: "llama3-8b",
            vocab: 128_256,
            hidden: 4096,
            layers: 32,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            ffn_width: 14_336,
            context_tokens: 8192,
            rope_theta: 500_000.0,
            norm_eps: 1e-5,
            tied_head: false,
        },
        KnownShape {
            name: "llama3.2-1b",
            vocab: 128_256,
            hidden: 2048,
            layers: 16,
            heads: 32,
            kv_heads: 8,
            head_dim: 64,
            ffn_width: 8192,
            context_tokens: 8192,
            rope_theta: 500_000.0,
            norm_eps: 1e-5,
            tied_head: true,
        },
        KnownShape {
            name: "smollm2-135m",
            vocab: 49_152,
            hidden: 576,
            layers: 30,
            heads: 9,
            kv_heads: 3,
            head_dim: 64,
            ffn_width: 1536,
            context_tokens: 8192,
            rope_theta: 100_000.0,
            norm_eps: 1e-5,
            tied_head: true,
        },
        // Without the norms of its heads.
        KnownShape {
            name: "qwen3-4b",
            vocab: 151_936,
            hidden: 2560,
            layers: 36,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            ffn_width: 9728,
            context_tokens: 262_144,
            rope_theta: 5_000_000.0,
            norm_eps: 1e-6,
            tied_head: true,
        },
    ];

    pub fn find(name: &str) -> Option<KnownShape> {
        Self::ALL.into_iter().find(|shape| shape.name == name)
    }

    pub fn spec(&self) -> DecoderSpec {
        let attention = AttentionSpec::GroupedQuery(GroupedQuerySpec {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            scale: 1.0 / (self.head_dim as f32).sqrt(),
            rope: 0,
            window: None,
        });
        let ffn = FfnSpec::Gated(GatedSpec { width: self.ffn_width, activation: Activation::Silu });
        DecoderSpec {
            vocab: self.vocab,
            hidden: self.hidden,
            context_tokens: self.context_tokens,
            norm_eps: self.norm_eps,
            ropes: vec![RopeSpec::plain(self.rope_theta, self.head_dim, RopeStyle::Halves)],
            trained_rope: None,
            dynamic_rope: None,
            layers: vec![LayerSpec { attention, ffn }; self.layers],
            tied_head: self.tied_head,
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_kernels::{Compute, CpuOptions, Ops, WeightFormat};

    use super::*;
    use crate::config::ModelConfig;
    use crate::decoder::Decoder;

    #[test]
    fn every_shape_can_be_run() {
        for shape in KnownShape::ALL {
            shape.spec().check().unwrap_or_else(|error| panic!("{}: {error}", shape.name));
            assert_eq!(KnownShape::find(shape.name), Some(shape));
        }
        assert_eq!(KnownShape::find("llama3"), None);
    }

    #[test]
    fn the_rotation_is_that_of_a_plain_configuration() {
        let config = ModelConfig::from_json(r#"{"rope_theta": 500000.0}"#).unwrap();
        let read = RopeSpec::new(&config.rope_settings(), 128, 8192, RopeStyle::Halves).unwrap();
        assert_eq!(KnownShape::ALL[0].spec().ropes, [read]);
    }

    #[test]
    fn a_tied_head_is_the_embedding_table() {
        let tied = KnownShape { vocab: 50, layers: 2, ffn_width: 64, ..KnownShape::ALL[2] };
        let untied = KnownShape { tied_head: false, ..tied };
        let ops = Ops::cpu(CpuOptions { threads: 1, level: None, compute: Compute::F32 }).unwrap();
        let random = |shape: KnownShape| {
            let decoder = Decoder::random(shape.spec(), WeightFormat::Bf16, &ops, || {}).unwrap();
            (decoder.weight_bytes(), decoder.step_weight_bytes())
        };
        let layer = (576 + 2 * 192) * 576 + 576 * 576 + 3 * 64 * 576;
        let (layers, table) = (2 * 2 * layer, 2 * 50 * 576);
        assert_eq!(random(untied), (layers + 2 * table, layers + table));
        assert_eq!(random(tied), (layers + table, layers + table));
    }
}
