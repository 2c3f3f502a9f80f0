//! What the fuzzers do with an input, for `fuzz/` and for the test run on stable Rust alike.
//!
//! A target reads untrusted input as Terrace would, uses what came of it, and says whether
//! it was accepted. A refusal is as good as success; a panic, a hang and memory that the input's
//! size does not explain are not. An input that found a fault stays in `fuzz/corpus`.
#![forbid(unsafe_code)]

mod adapter;
mod chat_template;
mod ctr_network;
mod dense_message;
mod files;
mod foreign_panics;
mod gguf;
mod gin;
mod handle;
mod http;
mod infer_body;
mod infer_message;
mod infer_tensors;
mod model;
mod model_config;
mod mutation;
mod ps_json;
mod safetensors;
mod sparse_table;
mod tokenizer;
mod torch_file;
mod update_message;

pub use foreign_panics::quiet_foreign_panics;
pub use mutation::mutated;

/// A way in for untrusted bytes.
pub struct Target {
    /// As `fuzz/` and its corpus call it.
    pub name: &'static str,
    /// Whether the input was accepted.
    pub run: fn(&[u8]) -> bool,
}

pub const TARGETS: [Target; 17] = [
    Target { name: "gguf", run: gguf::run },
    Target { name: "safetensors", run: safetensors::run },
    Target { name: "adapter", run: adapter::run },
    Target { name: "tokenizer", run: tokenizer::run },
    Target { name: "chat_template", run: chat_template::run },
    Target { name: "http", run: http::run },
    Target { name: "handle", run: handle::run },
    Target { name: "ps_json", run: ps_json::run },
    Target { name: "sparse_table", run: sparse_table::run },
    Target { name: "update_message", run: update_message::run },
    Target { name: "dense_message", run: dense_message::run },
    Target { name: "ctr_network", run: ctr_network::run },
    Target { name: "infer_body", run: infer_body::run },
    Target { name: "infer_message", run: infer_message::run },
    Target { name: "model_config", run: model_config::run },
    Target { name: "torch_file", run: torch_file::run },
    Target { name: "gin", run: gin::run },
];

/// Runs the target of that name.
pub fn run(name: &str, input: &[u8]) -> bool {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of this crate").run)(input)
}
