//! From the last layer's outputs to the loss, and back to their gradients.
//!
//! Next tokens are predicted over the whole vocabulary by an op of its own, which never has whole
//! logits ([`next_token`]). Everything else is a [`HeadModel`]: it is given outputs or logits chunk
//! by chunk from left to right, and gives their gradients from right to left ([`model_pass`]).

mod class_tokens;
mod classes;
mod cross_entropy;
mod head_model;
mod head_pass;
mod model_pass;
mod next_token;
mod run_head;

pub use class_tokens::SequenceClassificationOnLogits;
pub use classes::{Pooling, SequenceClassification};
pub use head_model::{Head, HeadBatch, HeadChunk, HeadModel};
pub(crate) use head_pass::{HeadGradients, HeadPass};
