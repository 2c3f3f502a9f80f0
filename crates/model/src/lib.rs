//! What is computed in which order: weights, text, and the decoder.

mod chat_template;
mod error;
mod tokenizer;

pub use chat_template::ChatTemplate;
pub use error::Error;
pub use tokenizer::Tokenizer;
