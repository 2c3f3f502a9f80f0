//! Inference requests and responses as gRPC's messages have them.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::kserve::datatype::Datatype;
use crate::kserve::infer_error::InferError;
use crate::kserve::infer_request::{InferRequest, RequestedOutput};
use crate::kserve::inference::Inferred;
use crate::kserve::messages::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use crate::kserve::messages::model_infer_response::InferOutputTensor;
use crate::kserve::messages::{
    InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse,
};
use crate::kserve::parameter::{Parameter, Parameters};
use crate::kserve::request_parameters::RequestParameters;
use crate::kserve::shape::elements_of;
use crate::kserve::tensor::Tensor;
use crate::kserve::tensor_data::TensorData;
use crate::kserve::tensor_parameters::{refuse_shared_memory, refuse_unknown, take_classes};

/// The model's name and version are taken out before.
pub fn read_request(message: ModelInferRequest) -> Result<InferRequest, InferError> {
    let ModelInferRequest { id, parameters, inputs, outputs, raw_input_contents, .. } = message;
    let parameters = RequestParameters::take(read_parameters(parameters)?)?;
    let (tensors, raws) = (inputs.len(), raw_input_contents.len());
    if raws != 0 && raws != tensors {
        return Err(InferError::invalid(format!(
            "raw_input_contents has {raws} entries for {tensors} inputs; give one for each, or none"
        )));
    }
    let mut raws = raw_input_contents.into_iter();
    let tensors = inputs.into_iter().map(|input| tensor(input, raws.next()));
    let tensors = tensors.collect::<Result<_, _>>()?;
    let outputs = outputs.into_iter().map(requested).collect::<Result<_, _>>()?;
    Ok(InferRequest {
        id,
        parameters: parameters.own,
        tensors,
        outputs,
        timeout: parameters.timeout,
        priority: parameters.priority,
        tenant: String::new(),
    })
}

/// All outputs as bytes, as Triton sends them.
pub fn response(inferred: Inferred) -> ModelInferResponse {
    let Inferred { id, model, version, outputs } = inferred;
    let raw = |tensor: &Tensor| {
        let mut raw = Vec::with_capacity(tensor.data().raw_len());
        tensor.data().write_raw(&mut raw);
        Bytes::from(raw)
    };
    let raw_output_contents = outputs.tensors.iter().map(raw).collect();
    let described = |tensor: &Tensor| InferOutputTensor {
        name: tensor.name().to_owned(),
        datatype: tensor.datatype().name().to_owned(),
        shape: tensor.shape().to_vec(),
        ..InferOutputTensor::default()
    };
    let parameters = outputs.parameters.into_iter();
    ModelInferResponse {
        model_name: model,
        model_version: version.to_string(),
        id,
        parameters: parameters.map(|(name, value)| (name, value.into_message())).collect(),
        outputs: outputs.tensors.iter().map(described).collect(),
        raw_output_contents,
    }
}

fn read_parameters(parameters: BTreeMap<String, InferParameter>) -> Result<Parameters, InferError> {
    let read = |(name, value)| match Parameter::of_message(value) {
        Some(value) => Ok((name, value)),
        None => Err(InferError::invalid(format!("parameter {name:?} has no value"))),
    };
    parameters.into_iter().map(read).collect()
}

fn tensor(input: InferInputTensor, raw: Option<Bytes>) -> Result<Tensor, InferError> {
    let InferInputTensor { name, datatype, shape, parameters, contents } = input;
    let parameters = read_parameters(parameters)?;
    refuse_shared_memory(&name, &parameters)?;
    refuse_unknown("input", &name, &parameters)?;
    if name.is_empty() {
        return Err(InferError::invalid("an input has no name"));
    }
    let Some(datatype) = Datatype::of_name(&datatype) else {
        let known = Datatype::ALL.map(Datatype::name).join(", ");
        return Err(InferError::invalid(format!(
            "input {name:?} has the datatype {datatype:?}; known: {known}"
        )));
    };
    match (contents, raw) {
        (None, Some(raw)) => Tensor::from_raw(name, datatype, shape, &raw),
        (Some(contents), None) => {
            let data = elements(&name, datatype, contents)?;
            Tensor::new(name, shape, data)
        }
        (Some(_), Some(_)) => Err(InferError::invalid(format!(
            "input {name:?} has contents, and raw_input_contents too; give one of them"
        ))),
        (None, None) if elements_of(&name, &shape)? == 0 => {
            Tensor::from_raw(name, datatype, shape, &Bytes::new())
        }
        (None, None) => Err(InferError::invalid(format!(
            "input {name:?} has no data: give contents, or raw_input_contents"
        ))),
    }
}

/// The list of the datatype; the others must be empty.
fn elements(
    name: &str,
    datatype: Datatype,
    mut contents: InferTensorContents,
) -> Result<TensorData, InferError> {
    use std::mem::take;
    let data = match datatype {
        Datatype::Bool => TensorData::Bool(take(&mut contents.bool_contents)),
        Datatype::Uint8 => TensorData::Uint8(narrowed(name, take(&mut contents.uint_contents))?),
        Datatype::Uint16 => TensorData::Uint16(narrowed(name, take(&mut contents.uint_contents))?),
        Datatype::Uint32 => TensorData::Uint32(take(&mut contents.uint_contents)),
        Datatype::Uint64 => TensorData::Uint64(take(&mut contents.uint64_contents)),
        Datatype::Int8 => TensorData::Int8(narrowed(name, take(&mut contents.int_contents))?),
        Datatype::Int16 => TensorData::Int16(narrowed(name, take(&mut contents.int_contents))?),
        Datatype::Int32 => TensorData::Int32(take(&mut contents.int_contents)),
        Datatype::Int64 => TensorData::Int64(take(&mut contents.int64_contents)),
        Datatype::Fp32 => TensorData::Fp32(take(&mut contents.fp32_contents)),
        Datatype::Fp64 => TensorData::Fp64(take(&mut contents.fp64_contents)),
        Datatype::Bytes => TensorData::Bytes(take(&mut contents.bytes_contents)),
        Datatype::Fp16 | Datatype::Bf16 => {
            let datatype = datatype.name();
            return Err(InferError::invalid(format!(
                "input {name:?} has the datatype {datatype}, which contents has no list for; send \
                 it as raw_input_contents"
            )));
        }
    };
    match contents == InferTensorContents::default() {
        true => Ok(data),
        false => Err(InferError::invalid(format!(
            "input {name:?} has elements in a list of contents that is not that of {}",
            datatype.name()
        ))),
    }
}

fn narrowed<Wide, Narrow>(name: &str, numbers: Vec<Wide>) -> Result<Vec<Narrow>, InferError>
where
    Wide: Copy + std::fmt::Display,
    Narrow: TryFrom<Wide>,
{
    let narrow = |(index, number): (usize, Wide)| {
        Narrow::try_from(number).map_err(|_| {
            InferError::invalid(format!(
                "element {index} of input {name:?} is {number}, which its datatype has no room for"
            ))
        })
    };
    numbers.into_iter().enumerate().map(narrow).collect()
}

fn requested(output: InferRequestedOutputTensor) -> Result<RequestedOutput, InferError> {
    let InferRequestedOutputTensor { name, parameters } = output;
    let mut parameters = read_parameters(parameters)?;
    refuse_shared_memory(&name, &parameters)?;
    let classes = take_classes(&mut parameters)?;
    refuse_unknown("output", &name, &parameters)?;
    Ok(RequestedOutput { name, classes })
}

#[cfg(test)]
mod tests;
