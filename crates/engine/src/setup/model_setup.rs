//! From a model's files and an [`InferenceConfig`] to an engine that can speak.

use terrace_device::Device;
use terrace_model::{DecoderSpec, LoadedModel, ModelText};

use crate::error::Error;
use crate::generate::engine::Engine;
use crate::setup::engine_setup::{EngineSetup, WeightSource};
use crate::setup::inference_config::InferenceConfig;
use crate::setup::memory_report::MemoryReport;
use crate::text::TextFront;

/// An engine and what makes ids of text and text of ids.
pub struct Setup {
    pub engine: Engine,
    pub front: TextFront,
    pub memory: MemoryReport,
    pub device: Device,
}

/// What an engine that can speak is made of.
pub struct ModelParts {
    pub name: String,
    pub spec: DecoderSpec,
    pub weights: WeightSource,
    pub text: ModelText,
}

impl Setup {
    /// `progress` is called after each layer that is brought to the device.
    pub fn new(
        model: LoadedModel,
        config: &InferenceConfig,
        progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let hash = model.hash_weights();
        let LoadedModel { name, spec, tensors, text, .. } = model;
        let weights = WeightSource::Files { tensors, hash };
        Setup::of_parts(ModelParts { name, spec, weights, text }, config, progress)
    }

    /// As `new`, of parts that need not come from files.
    pub fn of_parts(
        parts: ModelParts,
        config: &InferenceConfig,
        progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let ModelParts { name, spec, weights, text } = parts;
        let vocab = spec.vocab;
        let setup = EngineSetup::new(spec, weights, config, progress)?;
        let EngineSetup { engine, memory, device, context_tokens, caches } = setup;
        if config.verbose {
            tracing::info!(?memory, context_tokens, "the engine has its memory");
        }
        let front = TextFront::new(&name, text, vocab, context_tokens, caches, config)?;
        Ok(Setup { engine, front, memory, device })
    }
}
