//! Who runs when: requests, sequences, the scheduler, the step, the sampler, and the engine that
//! owns them on one thread.
//!
//! The core works on token ids and knows no text; [`text`] turns prompts into ids and ids into
//! text, outside the engine's thread.

mod error;
mod event;
mod handle;
mod logits_processor;
mod request;
mod sampling_params;
pub mod text;

pub use error::Error;
pub use event::{FinishReason, TokenEvent, TokenLogprobs};
pub use handle::EngineStats;
pub use logits_processor::{LogitsContext, LogitsProcessor};
pub use request::{Priority, Request, RequestId, TokenId};
pub use sampling_params::SamplingParams;
