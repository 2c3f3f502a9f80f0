//! Qwen 1.5 to 3: a window only where asked for.
//!
//! Up to 2.5 there are biases on queries, keys and values; in 3 each head of queries and keys is
//! normalised before it is rotated instead. Both are used where the files have them.

use crate::config::ModelConfig;
use crate::decoder_spec::DecoderSpec;
use crate::error::Error;
use crate::families::{Family, standard_spec};
use crate::layer_spec::AttentionSpec;
use crate::weights::Weights;

pub(super) struct Qwen;

impl Family for Qwen {
    fn model_types(&self) -> &[&str] {
        &["qwen2", "qwen3"]
    }

    /// Qwen's files name a `sliding_window` even when `use_sliding_window` is off, and then only
    /// the layers from `max_window_layers` on have it.
    fn spec(&self, config: &ModelConfig, source: &Weights) -> Result<DecoderSpec, Error> {
        let mut spec = standard_spec(config, source)?;
        let in_use = config.flag("use_sliding_window")?;
        let first = config.number_or_absent("max_window_layers")?.unwrap_or(0.0) as usize;
        let listed = config.get("layer_types").is_some();
        for (index, layer) in spec.layers.iter_mut().enumerate() {
            if !in_use || (!listed && index < first) {
                let AttentionSpec::GroupedQuery(attention) = &mut layer.attention;
                attention.window = None;
            }
        }
        Ok(spec)
    }
}
