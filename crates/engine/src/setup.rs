//! From a model's files and an [`InferenceConfig`] to an engine that can speak.

use terrace_model::LoadedModel;

use crate::engine::Engine;
use crate::engine_setup::{EngineSetup, MemoryReport, WeightSource};
use crate::error::Error;
use crate::inference_config::InferenceConfig;
use crate::text::TextFront;

/// An engine and what turns text into its ids and back.
pub struct Setup {
    pub engine: Engine,
    pub front: TextFront,
    pub memory: MemoryReport,
}

impl Setup {
    /// `progress` is told after each layer that is brought to the device.
    pub fn new(
        model: LoadedModel,
        config: &InferenceConfig,
        progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let LoadedModel { name, spec, tensors, text, .. } = model;
        let vocab = spec.vocab;
        let source = WeightSource::Files(tensors);
        let setup = EngineSetup::new(&name, spec, source, config, progress)?;
        let EngineSetup { engine, memory, context_tokens } = setup;
        let front = TextFront::new(&name, text, vocab, context_tokens, config)?;
        Ok(Setup { engine, front, memory })
    }
}
