//! What is computed in which order: weights, text, and the decoder.

mod chat_template;
mod error;
mod gguf;
mod tokenizer;
mod weights;

pub use chat_template::ChatTemplate;
pub use error::Error;
pub use gguf::{FromMetadata, GgufFile, GgufTensor};
pub use tokenizer::Tokenizer;
pub use weights::{TensorInfo, Weights};
