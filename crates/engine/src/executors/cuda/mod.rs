//! Runs plans on a GPU, which works while the host plans and starts the next step.
//!
//! A step is a fixed order of copies and launches in one stream: arrays in, forward, scores,
//! sampling, ids out, a mark. Steps of one token for each sequence are recorded as graphs for a few
//! padded sizes when the executor is made; others are launched kernel by kernel. Sampled ids stay
//! on the device, where the next step finds those the host has not seen.
//!
//! All device and pinned memory is taken by [`CudaExecutor::new`], which ends with the arena for
//! what comes later.

mod captured_kind;
mod cuda_executor;
mod cuda_executor_shape;
mod decode_graphs;
mod executor_memory;
mod layer_parts;
mod padded_sizes;
mod row_sampling;
mod step_arrays;
mod step_form;
mod step_staging;
mod step_views;

pub use captured_kind::CapturedKind;
pub use cuda_executor::CudaExecutor;
pub use cuda_executor_shape::CudaExecutorShape;
