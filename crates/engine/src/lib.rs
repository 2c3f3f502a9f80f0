//! Who runs when: requests, sequences, the scheduler, the step, the sampler, and the engine that
//! owns them on one thread.
//!
//! The core works on token ids and knows no text; [`text`] turns prompts into ids and ids into
//! text, outside the engine's thread.

#![forbid(unsafe_code)]

mod async_inference_engine;
mod batch;
mod cache_trace;
mod context_length;
mod cuda_executor;
mod device_choice;
mod device_executor;
mod engine;
mod engine_link;
mod engine_setup;
mod engine_thread;
mod error;
mod event;
mod executor;
pub mod guidance;
mod handle;
mod inference_config;
mod inference_engine;
mod kv_cache;
mod limits;
mod logits_processor;
mod plan;
mod replay;
mod request;
mod row_reader;
mod sampler;
mod sampling_params;
mod scheduler;
mod seq_cache;
mod sequence;
mod setup;
mod stats;
mod step_bounds;
mod steps_under_way;
pub mod text;
mod token_receiver;
mod yarn_rope;

pub use async_inference_engine::AsyncInferenceEngine;
pub use cache_trace::{CacheTrace, GroupTrace, KeptPositions, PageTrace};
pub use device_choice::DeviceChoice;
pub use device_executor::{DeviceExecutor, ExecutorShape, MemoryTaken};
pub use engine::{Engine, EngineConfig, Events, Positions};
pub use engine_setup::{EngineSetup, MemoryReport, WeightSource};
pub use error::Error;
pub use event::{FinishReason, TokenEvent, TokenLogprobs};
pub use executor::{Executor, NoToken, Sampled, SampledToken, StepOutput};
pub use handle::{EngineHandle, Shutdown};
pub use inference_config::{ComputeChoice, InferenceConfig, Precision};
pub use inference_engine::{Answer, Generated, InferenceEngine};
pub use kv_cache::{CacheMaker, CacheMakerConfig, KvCacheWishes, KwArg, Lengths};
pub use logits_processor::{LogitsContext, LogitsProcessor};
pub use plan::{CachedPrompt, Chunk, ChunkInput, PageMove, StepPlan};
pub use request::{Priority, Request, RequestId, TokenId};
pub use sampler::{RowContext, Sampler};
pub use sampling_params::SamplingParams;
pub use scheduler::SchedulerConfig;
pub use seq_cache::{GroupRule, SeqCache, SeqPolicy};
pub use sequence::{SeqId, SeqState, Sequence, Sequences};
pub use setup::{ModelParts, Setup};
pub use stats::EngineStats;
pub use token_receiver::{ChoiceCanceller, TokenReceiver};
pub use yarn_rope::YarnRope;
