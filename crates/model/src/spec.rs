//! What a decoder looks like, independent of who published it.
//!
//! A family turns its configuration into this; `decoder` runs it. Nothing here is a tensor.

use terrace_device::DType;
use terrace_kernels::{Activation, Ops, PageLayout};

use crate::context_rope::{ContextRope, TrainedRope};
use crate::dynamic_rope::DynamicRope;
use crate::error::Error;
use crate::rope::RopeSpec;

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
    /// and turn when they are read.
    pub dynamic_rope: Option<DynamicRope>,
    pub layers: Vec<LayerSpec>,
    /// The vocabulary is scored with the rows of the embedding table.
    pub tied_head: bool,
}

#[derive(Clone, Debug)]
pub struct LayerSpec {
    pub attention: AttentionSpec,
    pub ffn: FfnSpec,
}

impl LayerSpec {
    /// Columns of its queries, keys and feed-forward part.
    fn widths(&self) -> [usize; 3] {
        let AttentionSpec { heads, kv_heads, head_dim, .. } = self.attention;
        [heads * head_dim, kv_heads * head_dim, self.ffn.width]
    }
}

/// Grouped-query attention: `heads` queries share `kv_heads` keys and values.
#[derive(Clone, Debug)]
pub struct AttentionSpec {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub scale: f32,
    /// Index into [`DecoderSpec::ropes`].
    pub rope: usize,
    /// A key is visible iff it is less than this many positions back.
    pub window: Option<usize>,
}

/// A gated feed-forward layer: `down(activation(gate(x)) * up(x))`.
#[derive(Clone, Debug)]
pub struct FfnSpec {
    pub width: usize,
    pub activation: Activation,
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
        let [query, _, ffn] = self.layers[0].widths();
        let widest = self.hidden.max(query).max(ffn);
        if widest > Ops::MAX_COLUMNS {
            return complain(format!(
                "rows of {widest} numbers, at most {} can be multiplied",
                Ops::MAX_COLUMNS
            ));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let AttentionSpec { heads, kv_heads, head_dim, .. } = layer.attention;
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
            if self.layers[0].widths() != layer.widths() {
                return complain(format!("layer {index} is not as wide as the first"));
            }
            let rotated = 2 * self.ropes[layer.attention.rope].inv_freq.len();
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
    /// its rotation cannot be scaled.
    pub fn scaled(mut self, context_tokens: usize) -> Option<Self> {
        let trained = self.trained_rope.as_ref().filter(|_| self.ropes.len() == 1)?;
        if trained.is_scaled() || trained.trained_tokens() < context_tokens {
            let ContextRope { rope, attn_scale } = trained.yarn(context_tokens);
            self.ropes = vec![rope];
            self.layers.iter_mut().for_each(|layer| layer.attention.scale = attn_scale);
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

    /// How a page of all layers is laid out.
    pub fn page_layout(&self, page_tokens: usize, dtype: DType) -> PageLayout {
        let AttentionSpec { kv_heads, head_dim, .. } = self.layers[0].attention;
        let layers = self.layers.len();
        let (key_dim, value_dim) = (head_dim, head_dim);
        PageLayout { layers, kv_heads, page_tokens, key_dim, value_dim, dtype }
    }

    pub(crate) fn check_layer_count(layers: usize) -> Result<(), Error> {
        if layers <= MAX_LAYERS {
            return Ok(());
        }
        Err(Error::Config(format!("num_hidden_layers is {layers}, at most {MAX_LAYERS} fit")))
    }
}
