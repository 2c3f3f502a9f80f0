//! A model whose weights, or branches beside them, are trained.

mod gradients;
mod layer_weights;
mod parameter;
mod projection;
mod row_weights;
mod saved;
mod training;
mod tuned_model;

pub use gradients::Gradients;
pub(crate) use layer_weights::LayerDims;
pub(crate) use parameter::{MatrixParameter, VectorParameter};
pub use parameter::{ParameterId, ParameterInfo};
pub(crate) use projection::{DroppedRows, PlacedProjection, ProjectionTrace};
pub(crate) use row_weights::{PlacedLayer, RowRoom, RowWeights};
pub use terrace_model::LoraKind;
pub use training::{LoraOptions, LoraTargets, Training, WeightsAt};
pub use tuned_model::TunedModel;
