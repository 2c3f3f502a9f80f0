//! Generation for async callers: the engine steps on its own thread, outputs are awaited.
//!
//! The shape of ColossalAI-Inference's online engine, without its gaps: outputs stream token by
//! token, and an aborted request frees its pages at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_model::LoadedModel;

use crate::error::Error;
use crate::setup::inference_config::InferenceConfig;
use crate::text::inference_engine::TextOutput;
use crate::text::{GenerationConfig, LanguageModel, Prompt, TextRequest, TextStream};

pub struct AsyncInferenceEngine {
    model: Arc<LanguageModel>,
    /// Requests added and not yet awaited, under the caller's ids.
    queued: Mutex<BTreeMap<u64, TextStream>>,
}

impl AsyncInferenceEngine {
    /// Takes all memory and starts the engine's thread. A caller's tokenizer comes with the model:
    /// [`LoadedModel::with_tokenizer`].
    pub fn new(model: LoadedModel, config: &InferenceConfig) -> Result<Self, Error> {
        Ok(Self::over(Arc::new(LanguageModel::start(model, config, || {})?)))
    }

    /// Over a model that runs already.
    pub fn over(model: Arc<LanguageModel>) -> Self {
        AsyncInferenceEngine { model, queued: Mutex::new(BTreeMap::new()) }
    }

    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// Starts answering a prompt under an id of the caller's choice.
    pub async fn add_request(
        &self,
        request_id: u64,
        prompt: impl Into<Prompt>,
        generation: GenerationConfig,
    ) -> Result<(), Error> {
        let mut queued = self.queued();
        if queued.contains_key(&request_id) {
            return Err(Error::DuplicateRequest { id: request_id });
        }
        let stream = self.model.submit(TextRequest::new(prompt, generation))?;
        queued.insert(request_id, stream);
        Ok(())
    }

    /// The output to an added request as it is made; dropping it aborts the request.
    pub fn stream(&self, request_id: u64) -> Result<TextStream, Error> {
        self.queued().remove(&request_id).ok_or(Error::UnknownRequest { id: request_id })
    }

    /// Outputs a prompt: `add_request`, then waits for all its outputs.
    pub async fn generate(
        &self,
        request_id: u64,
        prompt: impl Into<Prompt>,
        generation: GenerationConfig,
    ) -> Result<Vec<TextOutput>, Error> {
        self.add_request(request_id, prompt, generation).await?;
        let mut stream = self.stream(request_id)?;
        let mut outputs = Vec::new();
        while let Some(event) = stream.next().await {
            outputs.resize_with(outputs.len().max(event.choice + 1), TextOutput::default);
            let output: &mut TextOutput = &mut outputs[event.choice];
            output.extend(event);
        }
        Ok(outputs)
    }

    /// Waits for the engine's next step; returns at once when nothing is being answered.
    pub async fn step(&self) {
        self.model.next_step().await;
    }

    /// Ends a request that has been added and frees its pages.
    pub fn abort(&self, request_id: u64) -> Result<(), Error> {
        self.stream(request_id).map(drop)
    }

    /// Whether the engine's thread runs.
    pub fn is_running(&self) -> bool {
        self.model.is_running()
    }

    fn queued(&self) -> MutexGuard<'_, BTreeMap<u64, TextStream>> {
        self.queued.lock().expect("no one panics while holding it")
    }
}
