//! Instances that compute on a GPU.

mod cuda_predict_executor;
mod predict_form;
mod step_staging;

pub use cuda_predict_executor::CudaPredictExecutor;
