//! A model whose weights, or branches beside them, are trained.

mod gradients;
mod layer_weights;
mod parameter;
mod projection;
mod saved;
mod training;
mod tuned_model;

pub use gradients::Gradients;
pub(crate) use layer_weights::{LayerDims, LayerWeights};
pub(crate) use parameter::{MatrixParameter, VectorParameter};
pub use parameter::{ParameterId, ParameterInfo};
pub(crate) use projection::{DroppedRows, Projection, ProjectionTrace};
pub use terrace_model::LoraKind;
pub use training::{LoraOptions, LoraTargets, Training};
pub use tuned_model::TunedModel;
