//! `terrace finetune_long_lora` and its three kin: a model learns with its cache policy in place.
//!
//! Arguments are those of keys_values, by their names: [`FinetuneArgs`] has what all four modes
//! share, in groups of a file each.

mod data_args;
mod device_args;
mod engine_samples;
mod eval_args;
mod finetune_args;
mod grad_args;
mod head_args;
mod idle_args;
mod kv_cache;
mod lora_args;
mod optimiser_args;
mod plan;
mod plan_memory;
mod planned_memory;
mod precision;
mod refused;
mod run;
mod run_display;
mod saved_models;
mod settings;
mod snapshot_args;
mod train_args;

pub use finetune_args::{FinetuneFullArgs, FinetuneLoraArgs, OffloadFullArgs, OffloadLoraArgs};
pub use run::{run_full, run_lora, run_offload_full, run_offload_lora};
