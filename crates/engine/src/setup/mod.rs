//! From options and a model's files to an engine on a device.

pub(crate) mod context_length;
pub(crate) mod device_choice;
pub(crate) mod engine_setup;
pub(crate) mod inference_config;
pub(crate) mod kv_cache;
pub(crate) mod kv_tiers;
pub(crate) mod memory_report;
pub(crate) mod model_parts;
pub(crate) mod yarn_rope;
