//! What is computed in which order: weights, text, and the decoder.

mod error;

pub use error::Error;
