//! The bytes of an architecture: every field of a decoder that changes its numbers, in order.
//!
//! Counts are u64 and real numbers the bits of an f32, all little-endian; a kind is one byte. An
//! optional field is a byte, 0 or 1, and the field where it is 1.
//!
//! 1. version: u64, 1
//! 2. vocab, hidden: u64; norm_eps: f32; tied head: one byte, 0 or 1
//! 3. rotations: their number as u64, then of each: the style (0 halves, 1 interleaved), the scale
//!    as f32, the number of frequencies as u64, and these as f32
//! 4. optional rotation that follows a sequence's length: theta as f64, rotated elements and
//!    elements of a head as u64, trained tokens and the two limits of rotations as f64, the style
//! 5. layers: their number as u64, then of each
//!    - attention, kind 1 (grouped-query): heads, kv heads, elements of a head as u64, scale as
//!      f32, which rotation as u64, optional window as u64
//!    - feed-forward, kind 1 (gated): width as u64, activation (0 SiLU, 1 GELU by tanh)
//!
//! Left out is what changes no number: the longest context that is allowed, and what a rotation
//! was scaled from, which the frequencies show.

use terrace_kernels::{Activation, RopeStyle};

use crate::context_rope::TrainedRope;
use crate::decoder_spec::DecoderSpec;
use crate::layer_spec::{AttentionSpec, FfnSpec, GatedSpec, GroupedQuerySpec, LayerSpec};
use crate::rope_spec::RopeSpec;

const VERSION: usize = 1;

pub(super) fn bytes(spec: &DecoderSpec) -> Vec<u8> {
    let DecoderSpec {
        vocab,
        hidden,
        context_tokens: _,
        norm_eps,
        ropes,
        trained_rope: _,
        dynamic_rope,
        layers,
        tied_head,
    } = spec;
    let mut out = FieldBytes::default();
    [VERSION, *vocab, *hidden].into_iter().for_each(|count| out.count(count));
    out.number(*norm_eps);
    out.kind(u8::from(*tied_head));
    out.count(ropes.len());
    ropes.iter().for_each(|rope| out.rope(rope));
    out.kind(u8::from(dynamic_rope.is_some()));
    if let Some(rope) = dynamic_rope {
        let TrainedRope {
            theta,
            rotary_dim,
            head_dim,
            trained_tokens,
            rotations: [low, high],
            style,
            is_scaled: _,
        } = rope.trained();
        out.long_number(*theta);
        [rotary_dim, head_dim].into_iter().for_each(|count| out.count(*count));
        [trained_tokens, low, high].into_iter().for_each(|number| out.long_number(*number));
        out.kind(style_kind(*style));
    }
    out.count(layers.len());
    layers.iter().for_each(|layer| out.layer(layer));
    out.0
}

#[derive(Default)]
struct FieldBytes(Vec<u8>);

impl FieldBytes {
    fn count(&mut self, count: usize) {
        self.0.extend((count as u64).to_le_bytes());
    }

    fn number(&mut self, number: f32) {
        self.0.extend(number.to_bits().to_le_bytes());
    }

    fn long_number(&mut self, number: f64) {
        self.0.extend(number.to_bits().to_le_bytes());
    }

    fn kind(&mut self, kind: u8) {
        self.0.push(kind);
    }

    fn rope(&mut self, rope: &RopeSpec) {
        let RopeSpec { inv_freq, scale, style } = rope;
        self.kind(style_kind(*style));
        self.number(*scale);
        self.count(inv_freq.len());
        inv_freq.iter().for_each(|freq| self.number(*freq));
    }

    fn layer(&mut self, layer: &LayerSpec) {
        let LayerSpec { attention, ffn } = layer;
        match attention {
            AttentionSpec::GroupedQuery(attention) => {
                let GroupedQuerySpec { heads, kv_heads, head_dim, scale, rope, window } = attention;
                self.kind(1);
                [heads, kv_heads, head_dim].into_iter().for_each(|count| self.count(*count));
                self.number(*scale);
                self.count(*rope);
                self.kind(u8::from(window.is_some()));
                window.iter().for_each(|window| self.count(*window));
            }
        }
        match ffn {
            FfnSpec::Gated(GatedSpec { width, activation }) => {
                self.kind(1);
                self.count(*width);
                self.kind(match activation {
                    Activation::Silu => 0,
                    Activation::GeluTanh => 1,
                });
            }
        }
    }
}

fn style_kind(style: RopeStyle) -> u8 {
    match style {
        RopeStyle::Halves => 0,
        RopeStyle::Interleaved => 1,
    }
}

#[cfg(test)]
mod tests;
