//! GGUF files: typed metadata and quantised tensors in one mapped file.
//!
//! Everything in the file is checked when it is opened, and no count or length is believed before
//! it is compared with the bytes that are left: a broken or hostile file is an error, it never
//! makes Terrace allocate more than a small multiple of the file's own size.

mod cursor;
mod gguf_file;
mod metadata;
mod tensor_type;

pub use gguf_file::{GgufFile, GgufTensor};
pub use metadata::FromMetadata;
