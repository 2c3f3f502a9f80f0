//! Generative recommenders of the HSTU kind: the layers, and ranking and retrieval over them.

pub mod checkpoints;
mod hstu_config;
mod hstu_files;
mod hstu_layer_spec;
mod hstu_model;
mod jagged_features;
mod layer_tensors;
mod mask;
pub mod metrics;
mod mlp;
mod positions;
mod random_model;
pub mod recsys_args;
mod stack;
mod stack_buffers;
mod step_arrays;
mod token_layout;

pub use hstu_config::{
    HeadActivation, HstuConfig, HstuModelType, HstuTask, HstuVariant, Similarity, UvqkOrder,
};
pub use hstu_files::{HstuFiles, TableTensors};
pub use hstu_layer_spec::{Activated, HstuLayerSpec};
pub use hstu_model::{ContextRows, HstuModel, HstuStep, StreamMlps, StreamRows, TokenRows};
pub use jagged_features::JaggedFeatures;
pub use layer_tensors::{
    BiasTensors, HstuLayerTensors, NormTensors, UvqkLayout, owned_matrix, reordered, transposed,
};
pub use mask::{CandidateIds, MaskSpec, SequenceParts};
pub use mlp::Mlp;
pub use positions::{TimeScale, position_row, position_row_backward, time_row};
pub use stack::{HstuStack, HstuStepCtx, StepTimes};
pub use step_arrays::{HstuStepArrays, StepChunk};
pub use token_layout::{HistoryToken, TokenLayout};
