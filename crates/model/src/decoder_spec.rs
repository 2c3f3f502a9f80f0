//! What a decoder looks like, independent of who published it.
//!
//! A family turns its configuration into this; `decoder` runs it. Nothing here is a tensor.

use terrace_kernels::Ops;

use crate::context_rope::{ContextRope, TrainedRope};
use crate::dynamic_rope::DynamicRope;
use crate::error::Error;
use crate::layer_spec::{AttentionSpec, GroupedQuerySpec, LayerSpec};
use crate::rope_spec::RopeSpec;

#[derive(Clone, Debug)]
pub struct DecoderSpec {
    pub vocab: usize,
    pub hidden: usize,
    /// Longest sequence the positions are made for.
    pub context_tokens: usize,
    pub norm_eps: f32,
    /// The distinct rotations; layers point at them.
    pub ropes: Vec<RopeSpec>,
    /// What the one rotation of all layers is scaled from for longer sequences; `None` where
    /// that is not known.
    pub trained_rope: Option<TrainedRope>,
    /// Positions are scaled for each sequence by itself, as it grows: keys are kept as they are
    /// and rotated when they are read.
    pub dynamic_rope: Option<DynamicRope>,
    pub layers: Vec<LayerSpec>,
    /// The vocabulary is scored with the rows of the embedding table.
    pub tied_head: bool,
}

/// More layers than any published decoder has; a larger number is a broken file.
const MAX_LAYERS: usize = 1024;

impl DecoderSpec {
    /// Refuses numbers that contradict each other.
    pub fn check(&self) -> Result<(), Error> {
        let complain = |message: String| Err(Error::Config(message));
        if self.layers.is_empty() || self.layers.len() > MAX_LAYERS {
            return complain(format!("{} layers, expected 1 to {MAX_LAYERS}", self.layers.len()));
        }
        let widest = self.layers.iter().map(LayerSpec::widest_input).max().unwrap_or(0);
        let widest = widest.max(self.hidden);
        if widest > Ops::MAX_COLUMNS {
            return complain(format!(
                "rows of {widest} numbers, at most {} can be multiplied",
                Ops::MAX_COLUMNS
            ));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let AttentionSpec::GroupedQuery(attention) = &layer.attention;
            let GroupedQuerySpec { heads, kv_heads, head_dim, rope, .. } = *attention;
            if !heads.is_multiple_of(kv_heads) {
                return complain(format!(
                    "layer {index}: {heads} heads cannot share {kv_heads} key-value heads evenly"
                ));
            }
            let group = heads / kv_heads;
            if head_dim > Ops::MAX_HEAD_DIM || group > Ops::MAX_GROUP_HEADS {
                return complain(format!(
                    "layer {index}: heads of {head_dim} in groups of {group}, at most {} and {}",
                    Ops::MAX_HEAD_DIM,
                    Ops::MAX_GROUP_HEADS
                ));
            }
            let rotated = 2 * self.ropes[rope].inv_freq.len();
            if rotated > head_dim {
                return complain(format!(
                    "layer {index}: {rotated} rotated elements in heads of {head_dim}"
                ));
            }
        }
        Ok(())
    }

    /// The same decoder for sequences of `context_tokens`: by YaRN where they are longer than those
    /// it was trained with, which replaces a scaling of its own; else unchanged. `None` where
    /// its rotation cannot be scaled, or its heads are not all as wide as that is made for.
    pub fn scaled(mut self, context_tokens: usize) -> Option<Self> {
        let trained = self.trained_rope.as_ref().filter(|_| self.ropes.len() == 1)?;
        let is_wide_as_trained = |layer: &LayerSpec| {
            let AttentionSpec::GroupedQuery(attention) = &layer.attention;
            attention.head_dim == trained.head_dim
        };
        if !self.layers.iter().all(is_wide_as_trained) {
            return None;
        }
        if trained.is_scaled() || trained.trained_tokens() < context_tokens {
            let ContextRope { rope, attn_scale } = trained.yarn(context_tokens);
            self.ropes = vec![rope];
            for layer in &mut self.layers {
                let AttentionSpec::GroupedQuery(attention) = &mut layer.attention;
                attention.scale = attn_scale;
            }
        }
        self.context_tokens = self.context_tokens.max(context_tokens);
        Some(self)
    }

    /// The same decoder with positions that follow the length of each sequence, up to
    /// `context_tokens`; `None` where its rotation cannot be scaled.
    pub fn following_length(self, context_tokens: usize) -> Option<Self> {
        let trained = self.trained_rope.clone()?;
        let (own, tokens) = (self.context_tokens, trained.trained_tokens());
        let mut spec = self.scaled(tokens)?;
        spec.dynamic_rope = Some(DynamicRope::new(trained));
        spec.context_tokens = own.max(context_tokens);
        Some(spec)
    }

    pub(crate) fn check_layer_count(layers: usize) -> Result<(), Error> {
        if layers <= MAX_LAYERS {
            return Ok(());
        }
        Err(Error::Config(format!("num_hidden_layers is {layers}, at most {MAX_LAYERS} fit")))
    }
}
