//! Qwen 3: each head of queries and keys is normalised before it is rotated; no biases.

use crate::config::ModelConfig;
use crate::error::Error;
use crate::families::qwen2::windowed_where_asked;
use crate::families::{Family, standard_spec};
use crate::spec::DecoderSpec;
use crate::weights::Weights;

pub(super) struct Qwen3;

impl Family for Qwen3 {
    fn model_types(&self) -> &[&str] {
        &["qwen3"]
    }

    fn spec(&self, config: &ModelConfig, source: &Weights) -> Result<DecoderSpec, Error> {
        windowed_where_asked(config, standard_spec(config, source)?)
    }
}
