//! Who runs when: requests, sequences, the scheduler, the step, the sampler, and the engine that
//! owns them on one thread.
//!
//! The core works on token ids and knows no text; [`text`] turns prompts into ids and ids into
//! text, outside the engine's thread.

#![forbid(unsafe_code)]

mod error;
mod executors;
mod generate;
pub mod guidance;
mod handle;
mod kv_handles;
pub mod predict;
pub mod rank;
mod recorded_graphs;
mod setup;
pub mod text;
mod trace;

pub use error::Error;
pub use executors::cpu_executor::{CpuExecutor, ExecutorShape, MemoryTaken};
pub use generate::cache_trace::{CacheTrace, GroupTrace, KeptPositions, PageTrace};
pub use generate::engine::{Engine, Events, Positions};
pub use generate::engine_config::EngineConfig;
pub use generate::engine_stats::EngineStats;
pub use generate::executor::{Executor, NoToken, Sampled, SampledToken, StepOutput};
pub use generate::kept_handle::{KeepAs, KeptHandle};
pub use generate::kv_handle::KvHandle;
pub use generate::logits_processor::{LogitsContext, LogitsProcessor};
pub use generate::past::{Origin, Past, PastFile, PastTable};
pub use generate::request::{Priority, Request, RequestId, Task};
pub use generate::request_retention::{RequestRetention, SessionKey};
pub use generate::sampler::{RowContext, Sampler};
pub use generate::sampling_params::SamplingParams;
pub use generate::sampling_strategy::SamplingStrategy;
pub use generate::scheduler::SchedulerConfig;
pub use generate::seq_cache::SeqCache;
pub use generate::seq_id::SeqId;
pub use generate::seq_policy::{GroupRule, SeqPolicy};
pub use generate::sequence::{SeqState, Sequence, Sequences};
pub use generate::session_reading::{SessionPages, SessionQuery, SessionReading};
pub use generate::step_plan::{AdapterId, CachedPrompt, Chunk, ChunkInput, StepPlan};
pub use generate::tier_config::TierConfig;
pub use generate::token_event::{Failure, FinishReason, TokenEvent, TokenLogprobs};
pub use handle::{ChoiceCanceller, EngineHandle, Shutdown, TokenReceiver};
pub use kv_handles::{HandleLabels, HandlePrompt, HandleSummary, KvHandles};
pub use setup::device_choice::DeviceChoice;
pub use setup::engine_setup::{AddMoves, AddedMoves, EngineSetup, WeightSource};
pub use setup::inference_config::{ComputeChoice, InferenceConfig, Precision};
pub use setup::kv_cache::{CacheMaker, CacheMakerConfig, KwArg, Lengths, RequestedKvCache};
pub use setup::kv_tiers::{DiskLevel, KvTiers, TierReading};
pub use setup::memory_report::MemoryReport;
pub use setup::model_parts::ModelParts;
pub use setup::yarn_rope::YarnRope;
pub use terrace_cache::TokenId;
pub use terrace_cache::placement::PlacementRule;
pub use terrace_tiers::{HandleError, HandleId, TierCounters, TierError, TierUsage, Wait};
pub use text::async_inference_engine::AsyncInferenceEngine;
pub use text::inference_engine::{Generated, InferenceEngine, TextOutput};
