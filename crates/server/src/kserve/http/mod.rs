//! The protocol over HTTP: JSON, and the bytes of tensors behind it.

pub mod error_shape;
pub mod infer;
mod infer_body;
mod json_elements;
mod model_path;
pub mod models;
mod reply_body;
mod reply_form;
pub mod repository;
mod request_json;
pub mod server;
pub mod settings;
pub mod shared_memory;
pub mod stats;

pub use infer_body::InferBody;
