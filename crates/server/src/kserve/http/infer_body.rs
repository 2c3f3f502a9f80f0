//! The body of an inference request: JSON, with the bytes of tensors behind it.

use bytes::Bytes;
use serde::de::DeserializeSeed;

use super::json_elements::JsonElements;
use super::reply_form::ReplyForm;
use super::request_json::{InputData, InputJson, OutputJson, RequestJson};
use crate::kserve::datatype::Datatype;
use crate::kserve::infer_error::InferError;
use crate::kserve::infer_request::{InferRequest, RequestedOutput};
use crate::kserve::request_parameters::{RequestParameters, take_bool, wrong};
use crate::kserve::shape::elements_of;
use crate::kserve::tensor::Tensor;
use crate::kserve::tensor_parameters::{refuse_shared_memory, refuse_unknown, take_classes};

/// A request, how its response is written, and fields that nobody knows.
pub struct InferBody {
    pub request: InferRequest,
    pub form: ReplyForm,
    pub unknown: Vec<String>,
}

impl InferBody {
    /// `json_bytes` says where the JSON ends, if there is something behind it.
    pub fn parse(body: &Bytes, json_bytes: Option<usize>) -> Result<Self, InferError> {
        let end = json_bytes.unwrap_or(body.len());
        if end > body.len() {
            let bytes = body.len();
            return Err(InferError::invalid(format!(
                "Inference-Header-Content-Length is {end}, and the body has {bytes} bytes"
            )));
        }
        let json = str::from_utf8(&body[..end]).map_err(|error| {
            let at = error.valid_up_to();
            InferError::invalid(format!("the JSON of the request is not UTF-8: byte {at} is wrong"))
        })?;
        let json: RequestJson<'_> = serde_json::from_str(json).map_err(|error| {
            InferError::invalid(format!("the request is wrong: {}", said(&error)))
        })?;
        #[cfg(test)]
        json.note_taken();
        let mut binary = BinaryData { left: body.slice(end..), bytes: body.len() - end };
        let inputs = json.inputs.into_iter().map(|input| tensor(input, &mut binary));
        let tensors = inputs.collect::<Result<_, _>>()?;
        binary.finish()?;
        let parameters = RequestParameters::take(json.parameters)?;
        let mut form = ReplyForm::new(parameters.is_binary_output);
        let outputs = json.outputs.into_iter().map(|output| requested(output, &mut form));
        let outputs = outputs.collect::<Result<_, _>>()?;
        let request = InferRequest {
            id: json.id,
            parameters: parameters.own,
            tensors,
            outputs,
            timeout: parameters.timeout,
            priority: parameters.priority,
            tenant: String::new(),
        };
        Ok(Self { request, form, unknown: json.unknown })
    }
}

/// What stands behind the JSON, in the order of the inputs.
struct BinaryData {
    left: Bytes,
    /// In all.
    bytes: usize,
}

impl BinaryData {
    fn take(&mut self, input: &str, size: u64) -> Result<Bytes, InferError> {
        let left = self.left.len();
        match usize::try_from(size).ok().filter(|size| *size <= left) {
            Some(size) => Ok(self.left.split_to(size)),
            None => Err(InferError::invalid(format!(
                "binary_data_size of input {input:?} is {size}, and {left} bytes are left of the \
                 {} behind the JSON; Inference-Header-Content-Length says where it ends",
                self.bytes
            ))),
        }
    }

    fn finish(self) -> Result<(), InferError> {
        match self.left.len() {
            0 => Ok(()),
            left => Err(InferError::invalid(format!(
                "{left} of the {} bytes behind the JSON belong to no input; binary_data_size says \
                 how many each has",
                self.bytes
            ))),
        }
    }
}

fn tensor(input: InputJson<'_>, binary: &mut BinaryData) -> Result<Tensor, InferError> {
    let InputJson { name, datatype, shape, mut parameters, data, .. } = input;
    refuse_shared_memory(&name, &parameters)?;
    let binary_size = match parameters.remove("binary_data_size") {
        None => None,
        Some(value) => match value.as_uint() {
            Some(size) => Some(size),
            None => return Err(wrong("binary_data_size", &value, "a whole number from 0 on")),
        },
    };
    refuse_unknown("input", &name, &parameters)?;
    let Some(datatype) = Datatype::of_name(&datatype) else {
        let known = Datatype::ALL.map(Datatype::name).join(", ");
        return Err(InferError::invalid(format!(
            "input {name:?} has the datatype {datatype:?}; known: {known}"
        )));
    };
    match (data, binary_size) {
        (InputData::Absent, Some(size)) => {
            let raw = binary.take(&name, size)?;
            Tensor::from_raw(name, datatype, shape, &raw)
        }
        (InputData::Read(data), None) => Tensor::new(name, shape, data),
        (InputData::Unread(json), None) => {
            let seed = JsonElements { datatype, most: elements_of(&name, &shape)? };
            let mut reader = serde_json::Deserializer::from_str(json.get());
            let data = seed.deserialize(&mut reader).map_err(|error| {
                InferError::invalid(format!("the data of input {name:?} is wrong: {error}"))
            })?;
            Tensor::new(name, shape, data)
        }
        (InputData::Absent, None) => Err(InferError::invalid(format!(
            "input {name:?} has no data: give data, or binary_data_size and the bytes behind the \
             JSON"
        ))),
        (_, Some(_)) => Err(InferError::invalid(format!(
            "input {name:?} has data and binary_data_size; give one of them"
        ))),
    }
}

fn requested(output: OutputJson, form: &mut ReplyForm) -> Result<RequestedOutput, InferError> {
    let OutputJson { name, mut parameters, .. } = output;
    refuse_shared_memory(&name, &parameters)?;
    if let Some(is_binary) = take_bool(&mut parameters, "binary_data")? {
        form.set(&name, is_binary);
    }
    let classes = take_classes(&mut parameters)?;
    refuse_unknown("output", &name, &parameters)?;
    Ok(RequestedOutput { name, classes })
}

/// In words that a client's author has: what was found, and what is taken.
fn said(error: &serde_json::Error) -> String {
    error.to_string().replace("invalid type: ", "found ")
}

#[cfg(test)]
mod tests;
