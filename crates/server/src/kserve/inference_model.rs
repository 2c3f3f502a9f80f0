//! A version of a model that answers inference requests.

use futures_util::future::BoxFuture;

use super::datatype::Datatype;
use super::infer_error::InferError;
use super::infer_outputs::InferOutputs;
use super::infer_request::InferRequest;
use super::messages::ModelConfig;

/// One of these answers many requests at the same time. Whoever asks it holds it until the answer
/// is there, so that what it holds is let go after the last request.
pub trait InferenceModel: Send + Sync {
    fn metadata(&self) -> &ModelMetadata;

    fn config(&self) -> ModelConfig;

    /// Answers a request. One whose future is dropped is cancelled.
    fn infer(&self, request: InferRequest) -> BoxFuture<'_, Result<InferOutputs, InferError>>;

    /// What has been executed so far, by the size of the batch.
    fn batches(&self) -> Vec<BatchExecutions>;

    /// Whether requests can be answered.
    fn is_ready(&self) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelMetadata {
    pub name: String,
    pub version: u64,
    /// What runs it, such as `hugectr`.
    pub platform: String,
    pub inputs: Vec<TensorMetadata>,
    pub outputs: Vec<TensorMetadata>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMetadata {
    pub name: String,
    pub datatype: Datatype,
    /// -1 is any length.
    pub shape: Vec<i64>,
}

/// Executions of batches of one size, and the time in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchExecutions {
    pub batch_size: u64,
    pub executions: u64,
    pub input_ns: u64,
    pub infer_ns: u64,
    pub output_ns: u64,
}

impl TensorMetadata {
    pub fn new(name: &str, datatype: Datatype, shape: &[i64]) -> Self {
        Self { name: name.to_owned(), datatype, shape: shape.to_vec() }
    }
}
