//! The body of an inference response: JSON, with the bytes of tensors behind it.

use serde::ser::{Error, SerializeMap};
use serde::{Serialize, Serializer};

use super::reply_form::ReplyForm;
use crate::kserve::infer_error::InferError;
use crate::kserve::inference::Inferred;
use crate::kserve::parameter::{Parameter, Parameters};
use crate::kserve::tensor::Tensor;
use crate::kserve::tensor_data::TensorData;

pub struct ReplyBody {
    pub bytes: Vec<u8>,
    /// Where the JSON ends; `None` where there is nothing behind it.
    pub json_bytes: Option<usize>,
}

impl ReplyBody {
    pub fn new(inferred: &Inferred, form: &ReplyForm) -> Result<Self, InferError> {
        let tensors = &inferred.outputs.tensors;
        let binary = tensors.iter().filter(|tensor| form.is_binary(tensor.name()));
        let binary_bytes = binary.clone().map(|tensor| tensor.data().raw_len()).sum::<usize>();
        let mut bytes = Vec::with_capacity(binary_bytes + JSON_BYTES);
        serde_json::to_writer(&mut bytes, &ReplyJson { inferred, form })
            .map_err(|error| InferError::invalid(error.to_string()))?;
        let json_bytes = bytes.len();
        let mut is_binary = false;
        for tensor in binary {
            tensor.data().write_raw(&mut bytes);
            is_binary = true;
        }
        Ok(Self { bytes, json_bytes: is_binary.then_some(json_bytes) })
    }
}

/// Of a response whose outputs are bytes.
const JSON_BYTES: usize = 512;

struct ReplyJson<'a> {
    inferred: &'a Inferred,
    form: &'a ReplyForm,
}

impl Serialize for ReplyJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Inferred { id, model, version, outputs } = self.inferred;
        let mut map = serializer.serialize_map(None)?;
        if !id.is_empty() {
            map.serialize_entry("id", id)?;
        }
        map.serialize_entry("model_name", model)?;
        map.serialize_entry("model_version", &version.to_string())?;
        if !outputs.parameters.is_empty() {
            map.serialize_entry("parameters", &ParametersJson(&outputs.parameters))?;
        }
        let tensors = outputs.tensors.iter().map(|tensor| {
            let is_binary = self.form.is_binary(tensor.name());
            OutputJson { tensor, is_binary }
        });
        map.serialize_entry("outputs", &tensors.collect::<Vec<_>>())?;
        map.end()
    }
}

struct OutputJson<'a> {
    tensor: &'a Tensor,
    is_binary: bool,
}

#[derive(Serialize)]
struct BinarySize {
    binary_data_size: usize,
}

impl Serialize for OutputJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { tensor, is_binary } = self;
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("name", tensor.name())?;
        map.serialize_entry("datatype", tensor.datatype().name())?;
        map.serialize_entry("shape", tensor.shape())?;
        match is_binary {
            true => {
                let binary_data_size = tensor.data().raw_len();
                map.serialize_entry("parameters", &BinarySize { binary_data_size })?;
            }
            false => map.serialize_entry("data", &ElementsJson(tensor))?,
        }
        map.end()
    }
}

/// One flat list. What JSON has no number for, such as NaN, is `null`.
struct ElementsJson<'a>(&'a Tensor);

impl Serialize for ElementsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = self.0.name();
        match self.0.data() {
            TensorData::Bool(elements) => elements.serialize(serializer),
            TensorData::Uint8(elements) => elements.serialize(serializer),
            TensorData::Uint16(elements) => elements.serialize(serializer),
            TensorData::Uint32(elements) => elements.serialize(serializer),
            TensorData::Uint64(elements) => elements.serialize(serializer),
            TensorData::Int8(elements) => elements.serialize(serializer),
            TensorData::Int16(elements) => elements.serialize(serializer),
            TensorData::Int32(elements) => elements.serialize(serializer),
            TensorData::Int64(elements) => elements.serialize(serializer),
            TensorData::Fp32(elements) => elements.serialize(serializer),
            TensorData::Fp64(elements) => elements.serialize(serializer),
            TensorData::Bytes(texts) => {
                let texts = texts.iter().map(|text| str::from_utf8(text));
                let texts = texts.collect::<Result<Vec<_>, _>>().map_err(|_| {
                    S::Error::custom(format!(
                        "output {name:?} has bytes that are no UTF-8; ask for it with binary_data"
                    ))
                })?;
                texts.serialize(serializer)
            }
            TensorData::Fp16(_) | TensorData::Bf16(_) => Err(S::Error::custom(format!(
                "output {name:?} has the datatype {}, which has no form in JSON; ask for it with \
                 binary_data",
                self.0.datatype().name()
            ))),
        }
    }
}

struct ParametersJson<'a>(&'a Parameters);

impl Serialize for ParametersJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            match value {
                Parameter::Bool(it) => map.serialize_entry(name, it)?,
                Parameter::Int(number) => map.serialize_entry(name, number)?,
                Parameter::Uint(number) => map.serialize_entry(name, number)?,
                Parameter::Double(number) => map.serialize_entry(name, number)?,
                Parameter::Text(text) => map.serialize_entry(name, text)?,
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
