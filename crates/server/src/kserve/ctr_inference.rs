//! A click-through model as HugeCTR's clients know it: `DES`, `CATCOLUMN` and `ROWINDEX` in,
//! `OUTPUT0` out.

use futures_util::future::BoxFuture;
use terrace_embedding::KeyKind;
use terrace_engine::predict::{PredictError, PredictModel, Prediction, VcsrRequest};

use super::config_shape::with_tensors;
use super::datatype::Datatype;
use super::infer_error::InferError;
use super::infer_outputs::{InferOutputs, InferTimes};
use super::infer_request::InferRequest;
use super::inference_model::{BatchExecutions, InferenceModel, ModelMetadata, TensorMetadata};
use super::messages::ModelConfig;
use super::model_registry::nanoseconds;
use super::parameter::{Parameter, Parameters};
use super::tensor::Tensor;
use super::tensor_data::TensorData;
use crate::tables::ServedSet;

pub struct CtrInference {
    metadata: ModelMetadata,
    config: ModelConfig,
    model: PredictModel,
    /// Whose tables it looks up in: they go with the model.
    _tables: Option<ServedSet>,
}

const DENSE: &str = "DES";
const KEYS: &str = "CATCOLUMN";
const ROW_OFFSETS: &str = "ROWINDEX";
const OUTPUT: &str = "OUTPUT0";
/// Of a response: the samples that it has.
const SAMPLES: &str = "NumSample";

impl CtrInference {
    pub fn new(
        version: u64,
        config: ModelConfig,
        model: PredictModel,
        tables: Option<ServedSet>,
    ) -> Self {
        let keys = match model.shape().key_kind {
            KeyKind::I64 => Datatype::Int64,
            KeyKind::U32 => Datatype::Uint32,
        };
        let metadata = ModelMetadata {
            name: model.name().to_owned(),
            version,
            platform: "hugectr".to_owned(),
            inputs: vec![
                TensorMetadata::new(DENSE, Datatype::Fp32, &[-1]),
                TensorMetadata::new(KEYS, keys, &[-1]),
                TensorMetadata::new(ROW_OFFSETS, Datatype::Int32, &[-1]),
            ],
            outputs: vec![TensorMetadata::new(OUTPUT, Datatype::Fp32, &[-1])],
        };
        let config = with_tensors(config, &metadata);
        CtrInference { metadata, config, model, _tables: tables }
    }

    async fn predict(&self, mut request: InferRequest) -> Result<InferOutputs, InferError> {
        let dense = request.take_input(&[DENSE]).map_or(Ok(Vec::new()), Tensor::into_fp32)?;
        let keys = request.require_input(&[KEYS])?.into_keys()?;
        let row_offsets = request.require_input(&[ROW_OFFSETS])?.into_int32()?;
        request.finish(&[DENSE, KEYS, ROW_OFFSETS])?;
        let samples = self.model.check(VcsrRequest { dense, keys, row_offsets });
        let samples = samples.map_err(infer_error)?;
        let predicted = self.model.predict(samples, request.timeout).await;
        predicted.map(outputs).map_err(infer_error)
    }
}

impl InferenceModel for CtrInference {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    fn config(&self) -> ModelConfig {
        self.config.clone()
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'_, Result<InferOutputs, InferError>> {
        Box::pin(self.predict(request))
    }

    fn batches(&self) -> Vec<BatchExecutions> {
        let batches = self.model.stats().batches.into_iter();
        let executions = batches.map(|(samples, batches)| BatchExecutions {
            batch_size: samples as u64,
            executions: batches.count,
            input_ns: nanoseconds(batches.input),
            infer_ns: nanoseconds(batches.compute),
            output_ns: nanoseconds(batches.output),
        });
        executions.collect()
    }

    fn is_ready(&self) -> bool {
        self.model.is_running()
    }
}

fn outputs(prediction: Prediction) -> InferOutputs {
    let Prediction { samples, numbers, times, .. } = prediction;
    let count = i64::try_from(samples).expect("memory has fewer samples");
    InferOutputs {
        tensors: vec![Tensor::list(OUTPUT, TensorData::Fp32(numbers))],
        parameters: Parameters::from([(SAMPLES.to_owned(), Parameter::Int(count))]),
        inferences: samples as u64,
        times: InferTimes {
            queue_ns: nanoseconds(times.queue),
            input_ns: nanoseconds(times.input),
            infer_ns: nanoseconds(times.compute),
            output_ns: nanoseconds(times.output),
        },
        held: None,
    }
}

fn infer_error(error: PredictError) -> InferError {
    let message = error.to_string();
    match error {
        PredictError::Busy { .. } | PredictError::Stopped => InferError::unavailable(message),
        PredictError::Late { .. } => InferError::deadline(message),
        PredictError::Failed(_) => InferError::internal(message),
        _ => InferError::invalid(message),
    }
}
