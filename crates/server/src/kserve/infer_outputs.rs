//! What a model gives for a request.

use std::any::Any;

use super::parameter::Parameters;
use super::tensor::Tensor;

#[derive(Default)]
pub struct InferOutputs {
    pub tensors: Vec<Tensor>,
    pub parameters: Parameters,
    /// Of how many inferences the request was: the samples of its batch.
    pub inferences: u64,
    pub times: InferTimes,
    /// Let go when the response has been sent or given up, such as memory that is counted.
    pub held: Option<Box<dyn Any + Send + Sync>>,
}

/// How long a request was where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InferTimes {
    /// Until it began to run.
    pub queue_ns: u64,
    /// Inputs were put where the model reads them.
    pub input_ns: u64,
    pub infer_ns: u64,
    /// Outputs were put where they are sent from.
    pub output_ns: u64,
}
