//! Qwen 1.5, 2 and 2.5: biases on queries, keys and values; a window only where asked for.

use crate::config::ModelConfig;
use crate::error::Error;
use crate::families::{Family, standard_spec};
use crate::layer_spec::AttentionSpec;
use crate::spec::DecoderSpec;
use crate::weights::Weights;

pub(super) struct Qwen2;

impl Family for Qwen2 {
    fn model_types(&self) -> &[&str] {
        &["qwen2"]
    }

    fn spec(&self, config: &ModelConfig, source: &Weights) -> Result<DecoderSpec, Error> {
        windowed_where_asked(config, standard_spec(config, source)?)
    }
}

/// Qwen's files name a `sliding_window` even when `use_sliding_window` is off, and then only the
/// layers from `max_window_layers` on have it.
pub(super) fn windowed_where_asked(
    config: &ModelConfig,
    mut spec: DecoderSpec,
) -> Result<DecoderSpec, Error> {
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
