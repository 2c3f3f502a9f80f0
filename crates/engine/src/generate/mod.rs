//! Generation: requests become sequences, the scheduler plans steps over them, and the engine owns
//! all of it on one thread.

pub(crate) mod cache_trace;
pub(crate) mod engine;
pub(crate) mod engine_config;
pub(crate) mod engine_stats;
pub(crate) mod executor;
pub(crate) mod handle_work_under_way;
pub(crate) mod kept_handle;
pub(crate) mod kv_handle;
pub(crate) mod limits;
pub(crate) mod logits_processor;
pub(crate) mod moves_under_way;
pub(crate) mod past;
pub(crate) mod prefix_fetch;
pub(crate) mod recent_responses;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod request_retention;
pub(crate) mod sampler;
pub(crate) mod sampling_params;
pub(crate) mod sampling_strategy;
pub(crate) mod scheduler;
pub(crate) mod seq_cache;
pub(crate) mod seq_id;
pub(crate) mod seq_memory;
pub(crate) mod seq_policy;
pub(crate) mod sequence;
pub(crate) mod session_reading;
pub(crate) mod sessions;
pub(crate) mod step_plan;
pub(crate) mod steps_under_way;
pub(crate) mod tier_config;
pub(crate) mod tier_work_under_way;
pub(crate) mod token_event;
