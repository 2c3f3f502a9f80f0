//! Who runs when: requests, sequences, the scheduler, the step, the sampler, and the engine that
//! owns them on one thread.
//!
//! The core works on token ids and knows no text; [`text`] turns prompts into ids and ids into
//! text, outside the engine's thread.

mod error;
mod event;
mod executor;
mod handle;
mod logits_processor;
mod plan;
mod request;
mod sampling_params;
mod scheduler;
mod sequence;
pub mod text;

pub use error::Error;
pub use event::{FinishReason, TokenEvent, TokenLogprobs};
pub use executor::{Executor, Sampled, SampledToken, StepOutput};
pub use handle::EngineStats;
pub use logits_processor::{LogitsContext, LogitsProcessor};
pub use plan::{Chunk, StepPlan};
pub use request::{Priority, Request, RequestId, TokenId};
pub use sampling_params::SamplingParams;
pub use sequence::{SeqId, SeqState, Sequence, Sequences};
