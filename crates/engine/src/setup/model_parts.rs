//! What an engine that can speak is made of, and the engine it becomes.

use std::sync::Arc;

use terrace_model::{DecoderSpec, LoadedModel, ModelText};

use crate::error::Error;
use crate::setup::engine_setup::{EngineSetup, WeightSource};
use crate::setup::inference_config::InferenceConfig;
use crate::text::TextFront;

/// A model, whether or not it comes from files.
pub struct ModelParts {
    pub name: String,
    pub spec: DecoderSpec,
    pub weights: WeightSource,
    pub text: ModelText,
}

impl From<LoadedModel> for ModelParts {
    fn from(model: LoadedModel) -> Self {
        let hash = model.hash_weights();
        let LoadedModel { name, spec, tensors, text, .. } = model;
        ModelParts { name, spec, weights: WeightSource::Files { tensors, hash }, text }
    }
}

impl ModelParts {
    /// Takes all memory that the engine will ever use. `progress` is called after each layer that
    /// is brought to the device.
    pub(crate) fn set_up(
        self,
        config: &InferenceConfig,
        progress: impl FnMut(),
    ) -> Result<(TextFront, EngineSetup), Error> {
        let ModelParts { name, spec, weights, text } = self;
        let vocab = spec.vocab;
        let setup = EngineSetup::new(spec, weights, config, progress)?;
        let EngineSetup { memory, adapter, context_tokens, caches, .. } = &setup;
        if config.verbose {
            tracing::info!(?memory, context_tokens, "the engine has its memory");
        }
        if let Some(adapter) = adapter {
            tracing::info!("{name} has the adapter {adapter}");
        }
        let front =
            TextFront::new(&name, text, vocab, *context_tokens, Arc::clone(caches), config)?;
        Ok((front, setup))
    }
}
