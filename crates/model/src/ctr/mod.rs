//! Click-through models as HugeCTR describes them: networks in JSON, dense weights in a flat file,
//! and the layers between pooled embedding rows and probabilities.

mod ctr_compute;
mod ctr_graph;
mod ctr_inputs;
mod ctr_layer;
mod ctr_layer_kinds;
mod ctr_model;
mod ctr_network;
mod ctr_param;
mod ctr_shape;
mod ctr_step;
mod ctr_weights;
mod data_layer;
mod embedding_layer;
mod graph_builder;
mod layer_fields;
mod layer_params;
mod layers;
mod plan;

pub use ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
pub use ctr_inputs::{CtrInputs, CtrOutput, CtrTable};
pub use ctr_layer::{CtrForm, CtrLayer, CtrSource, CtrSubLayer, CtrWiring};
pub use ctr_layer_kinds::{CtrLayerKinds, ReadCtrLayer};
pub use ctr_model::CtrModel;
pub use ctr_network::CtrNetwork;
pub use ctr_param::{CtrParam, CtrParamKind};
pub use ctr_shape::CtrShape;
pub use ctr_step::{CtrCtx, CtrInput, CtrStep};
pub use ctr_weights::CtrWeights;
pub use layer_fields::LayerFields;
pub use layer_params::LayerParams;
