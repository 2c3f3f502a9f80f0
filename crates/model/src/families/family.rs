//! What a model family says: which models are its own, what they compute, where their tensors are.

use crate::config::ModelConfig;
use crate::decoder::DecoderTensors;
use crate::decoder_spec::DecoderSpec;
use crate::error::Error;
use crate::families::standard::{standard_spec, standard_tensors};
use crate::families::tensor_names::TensorNames;
use crate::weights::Weights;

pub trait Family: Send + Sync {
    /// The `model_type` values (or GGUF architectures) it is for.
    fn model_types(&self) -> &[&str];

    /// The decoder that a configuration describes.
    fn spec(&self, config: &ModelConfig, source: &Weights) -> Result<DecoderSpec, Error> {
        standard_spec(config, source)
    }

    /// What the tensors are called.
    fn names(&self, config: &ModelConfig) -> TensorNames {
        TensorNames::of(config.format())
    }

    /// The decoder's tensors. The default is the layout of most families, biases where present.
    fn tensors(
        &self,
        config: &ModelConfig,
        spec: &DecoderSpec,
        source: &Weights,
    ) -> Result<DecoderTensors, Error> {
        standard_tensors(spec, source, &self.names(config))
    }
}
