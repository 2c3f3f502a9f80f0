//! Click-through models whose dense part is an ONNX file: tables look up, the file computes.
//!
//! The file is read and computed by `tract`, on the CPU. What is Terrace's is between the two:
//! which inputs are vectors of tables and which one the dense features ([`OnnxNetwork`]), and the
//! executor that a model's queue hands batches to ([`OnnxPredictExecutor`]).

#![forbid(unsafe_code)]

mod guarded;
mod onnx_inputs;
mod onnx_network;
mod onnx_predict_executor;
mod onnx_setup;

pub use onnx_inputs::InputRole;
pub use onnx_network::{OnnxBatch, OnnxNetwork};
pub use onnx_predict_executor::OnnxPredictExecutor;
pub use onnx_setup::OnnxSetup;
