//! KServe's inference protocol, version 2, with Triton's extensions: over HTTP, and over gRPC.
//!
//! A request of either becomes an [`InferRequest`] of typed tensors; an [`InferenceModel`] answers
//! it. [`ModelRegistry`] knows which models there are, in which versions.

mod batch_counter;
mod classification;
mod config_json;
mod config_scan;
mod config_shape;
mod config_text;
mod ctr_inference;
mod datatype;
mod descriptors;
pub mod grpc;
pub mod http;
mod infer_error;
mod infer_outputs;
mod infer_request;
mod inference;
mod inference_model;
mod jagged_features;
mod message_codec;
pub mod messages;
mod model_registry;
mod parameter;
mod recommender_model;
mod request_parameters;
mod server_metadata;
mod settings;
mod shape;
mod shared_memory;
mod statistics;
mod table_model;
mod tensor;
mod tensor_data;
mod tensor_parameters;

pub use batch_counter::BatchCounter;
pub use config_json::{model_config_json, read_model_config_json};
pub use config_text::read_model_config;
pub use ctr_inference::CtrInference;
pub use datatype::Datatype;
pub use http::error_shape::InferErrorShape;
pub use infer_error::{InferError, InferErrorKind};
pub use infer_outputs::{InferOutputs, InferTimes};
pub use infer_request::{InferRequest, RequestedOutput};
pub use inference_model::{BatchExecutions, InferenceModel, ModelMetadata, TensorMetadata};
pub use message_codec::MessageCodec;
pub use messages::ModelConfig;
pub use model_registry::{
    IndexedModel, LoadParameters, LoadRequest, ModelRegistry, ModelSource, ModelState,
    RegularThreads, ServedVersion, StatisticsReading,
};
pub use parameter::{Parameter, Parameters};
pub use recommender_model::RecommenderModel;
pub use table_model::TableModel;
pub use tensor::Tensor;
pub use tensor_data::TensorData;
