//! A model ready to talk: text on one side, an engine on its own thread on the other.

use std::sync::Arc;

use terrace_cache::TokenId;
use terrace_device::Device;
use terrace_model::{ChatTemplate, PlacedAdapter, Tokenizer};
use terrace_tiers::GuardedTier;

use crate::error::Error;
use crate::generate::cache_trace::CacheTrace;
use crate::generate::engine::Positions;
use crate::generate::engine_stats::EngineStats;
use crate::generate::request_retention::SessionKey;
use crate::generate::session_reading::{SessionQuery, SessionReading};
use crate::guidance::{Grammar, Guide};
use crate::handle::{EngineHandle, Shutdown};
use crate::kv_handles::KvHandles;
use crate::setup::engine_setup::EngineSetup;
use crate::setup::inference_config::InferenceConfig;
use crate::setup::kv_tiers::TierReading;
use crate::setup::memory_report::MemoryReport;
use crate::setup::model_parts::ModelParts;
use crate::text::text_outputs::TextOutputs;
use crate::text::{PendingEmbedding, Prompt, TextFront, TextRequest, TextStream};

pub struct LanguageModel {
    front: TextFront,
    engine: EngineHandle,
    memory: MemoryReport,
    adapter: Option<PlacedAdapter>,
    device: Device,
    tiers: Vec<Arc<GuardedTier>>,
    kv_handles: KvHandles,
}

impl LanguageModel {
    /// Takes all memory and starts the engine's thread. `progress` is called after each layer
    /// that is brought to the device.
    pub fn start(
        model: impl Into<ModelParts>,
        config: &InferenceConfig,
        progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let (front, setup) = model.into().set_up(config, progress)?;
        let EngineSetup { engine, memory, adapter, device, tiers, mut identity, handles, .. } =
            setup;
        let engine = EngineHandle::spawn(engine);
        identity.tokenizer = Some(Arc::clone(front.shared_tokenizer()));
        let kv_handles = KvHandles::new(engine.clone(), identity, handles);
        Ok(LanguageModel { front, engine, memory, adapter, device, tiers, kv_handles })
    }

    /// The name under which it is served.
    pub fn name(&self) -> &str {
        self.front.name()
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        self.front.tokenizer()
    }

    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.front.chat_template()
    }

    /// Most tokens a prompt and its output may have together.
    pub fn context_tokens(&self) -> usize {
        self.front.context_tokens()
    }

    /// KV caches that are held by name.
    pub fn kv_handles(&self) -> &KvHandles {
        &self.kv_handles
    }

    /// The ids of a prompt.
    pub fn tokenise(&self, prompt: Prompt) -> Result<Vec<TokenId>, Error> {
        self.front.tokenise(prompt, self.front.prompt_tokens())
    }

    /// Refuses a prompt that is too long by its length alone.
    pub fn check_length(&self, prompt: &Prompt) -> Result<(), Error> {
        self.front.check_length(prompt)
    }

    /// Makes ready what the guides of all grammars share, which depends on the vocabulary. Blocks
    /// for some hundred milliseconds the first time; `guide` does it too.
    pub fn prepare_guides(&self) -> Result<(), Error> {
        self.front.prepare_guides()
    }

    /// Compiles a grammar for a request's `guide`. It is tried in a process of its own first, if
    /// the configuration names one, so that it takes bounded time and memory; dropping the future
    /// ends that process. Needs a tokio runtime.
    pub async fn guide(&self, grammar: &Grammar) -> Result<Guide, Error> {
        self.front.guide(grammar).await
    }

    /// Tokenises, settles the options and hands the request to the engine.
    pub fn submit(&self, request: TextRequest) -> Result<TextStream, Error> {
        let past = request.past.map(|id| self.kv_handles.past(id)).transpose()?;
        let crosses = past.as_ref().is_some_and(|past| past.origin.arithmetic.is_some());
        let prepared = self.front.prepare(request, past.as_deref())?;
        let prompt = prepared.request.prompt.as_slice().into();
        let outputs = TextOutputs::new(&prepared, self.tokenizer());
        let receiver = self.engine.submit_from(past, prepared.request)?;
        Ok(TextStream::new(prompt, outputs, receiver, crosses))
    }

    /// Tokenises a prompt and asks the engine for its embedding.
    pub fn embed(&self, prompt: Prompt) -> Result<PendingEmbedding, Error> {
        let request = self.front.prepare_embedding(prompt)?;
        let prompt_tokens = request.prompt.len();
        Ok(PendingEmbedding::new(prompt_tokens, self.engine.submit(request)?))
    }

    pub fn stats(&self) -> EngineStats {
        self.engine.stats()
    }

    /// What the cache of every sequence holds.
    pub async fn cache_traces(&self, positions: Positions) -> Result<Vec<CacheTrace>, Error> {
        self.engine.cache_traces(positions).await
    }

    /// Conversations whose pages are kept.
    pub async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionReading>, Error> {
        self.engine.sessions(query).await
    }

    /// Ends a session, so that its pages are as all others; whether there was one.
    pub async fn end_session(&self, key: SessionKey) -> Result<bool, Error> {
        self.engine.end_session(key).await
    }

    /// Waits for the engine's next step; returns at once when it has nothing to do.
    pub async fn next_step(&self) {
        self.engine.next_step().await;
    }

    /// What the levels below host memory have done and hold, the fastest first.
    pub fn tier_readings(&self) -> Vec<TierReading> {
        self.tiers.iter().map(|tier| TierReading::of(tier)).collect()
    }

    /// The adapter that changes what the model computes.
    pub fn adapter(&self) -> Option<&PlacedAdapter> {
        self.adapter.as_ref()
    }

    /// The memory taken at start.
    pub fn memory(&self) -> &MemoryReport {
        &self.memory
    }

    /// Device memory that nobody has taken; `None` on the CPU. An engine that serves takes no more
    /// than it took at start, so this stays as it is.
    pub fn free_device_bytes(&self) -> Option<usize> {
        self.device.free_bytes()
    }

    /// Whether the engine's thread runs.
    pub fn is_running(&self) -> bool {
        self.engine.is_running()
    }

    /// Stops the engine and waits for its thread.
    pub fn shutdown(&self, how: Shutdown) {
        self.engine.shutdown(how);
    }
}
