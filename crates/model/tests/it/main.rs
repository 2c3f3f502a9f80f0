//! What a model's files must and must not do, through the crate's public face.

mod adapters;
mod chat_template;
mod context_rope;
mod ctr_network;
mod custom_family;
mod fingerprint;
mod gguf;
mod gguf_writer;
mod gin;
mod golden_ctr;
mod golden_hstu;
mod golden_llm;
mod hstu_checkpoints;
mod layer_kinds;
mod recsys_args;
mod safetensors_writer;
mod smollm2;
mod tokenizer_folder;
mod tokenizer_gguf;
mod torch_file;
mod weight_kinds;
mod weights;
