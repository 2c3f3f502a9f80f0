//! An inference request as its bytes, in each of the forms that clients send.

use anyhow::{Context, Result, bail};
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use serde_json::{Value, json};
use terrace_server::kserve::messages::ModelInferRequest;
use terrace_server::kserve::messages::model_infer_request::InferInputTensor;

use super::wire_form::WireForm;

pub struct WireRequest {
    pub form: WireForm,
    pub path: String,
    /// Of the JSON before the tensors, in the binary form.
    pub header_bytes: Option<usize>,
    pub body: Bytes,
}

/// A tensor with its numbers as bytes.
struct RawTensor {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    bytes: Vec<u8>,
}

impl WireRequest {
    /// `text`: JSON as it could be posted.
    pub fn new(form: WireForm, model: &str, text: &[u8]) -> Result<Self> {
        let request: Value = serde_json::from_slice(text).context("it is not JSON")?;
        let inputs = request["inputs"].as_array().context("it has no list `inputs`")?;
        let tensors = || inputs.iter().map(RawTensor::read).collect::<Result<Vec<_>>>();
        let path = format!("/v2/models/{model}/infer");
        Ok(match form {
            WireForm::Json => {
                WireRequest { form, path, header_bytes: None, body: Bytes::copy_from_slice(text) }
            }
            WireForm::Binary => {
                let tensors = tensors()?;
                let header = serde_json::to_vec(&json!({
                    "inputs": tensors.iter().map(RawTensor::header).collect::<Vec<_>>(),
                    "parameters": {"binary_data_output": true},
                }))?;
                let mut body = BytesMut::from(&header[..]);
                tensors.iter().for_each(|tensor| body.put_slice(&tensor.bytes));
                WireRequest { form, path, header_bytes: Some(header.len()), body: body.freeze() }
            }
            WireForm::Grpc => WireRequest {
                form,
                path: "/inference.GRPCInferenceService/ModelInfer".to_owned(),
                header_bytes: None,
                body: grpc_frame(&grpc_message(model, tensors()?)),
            },
        })
    }
}

impl RawTensor {
    fn read(input: &Value) -> Result<Self> {
        let name = input["name"].as_str().context("an input has no name")?.to_owned();
        let datatype = input["datatype"].as_str().context("an input has no datatype")?.to_owned();
        let shape = input["shape"].as_array().context("an input has no shape")?;
        let shape = shape.iter().map(|it| it.as_i64().context("a shape has whole numbers"));
        let shape = shape.collect::<Result<Vec<_>>>()?;
        let data = input["data"].as_array().context("an input has no data")?;
        let mut bytes = Vec::new();
        for number in data {
            put_number(&mut bytes, &datatype, number)
                .with_context(|| format!("{number} in input {name}"))?;
        }
        Ok(RawTensor { name, datatype, shape, bytes })
    }

    fn header(&self) -> Value {
        json!({
            "name": self.name,
            "datatype": self.datatype,
            "shape": self.shape,
            "parameters": {"binary_data_size": self.bytes.len()},
        })
    }
}

fn put_number(bytes: &mut Vec<u8>, datatype: &str, number: &Value) -> Result<()> {
    let whole = || number.as_i64().context("is not a whole number");
    match datatype {
        "FP32" => bytes.put_f32_le(number.as_f64().context("is not a number")? as f32),
        "INT64" => bytes.put_i64_le(whole()?),
        "INT32" => bytes.put_i32_le(i32::try_from(whole()?)?),
        "UINT32" => bytes.put_u32_le(u32::try_from(whole()?)?),
        other => bail!("datatype {other} is not sent here; FP32, INT64, INT32 and UINT32 are"),
    }
    Ok(())
}

fn grpc_message(model: &str, tensors: Vec<RawTensor>) -> ModelInferRequest {
    let (mut inputs, mut contents) = (Vec::new(), Vec::new());
    for RawTensor { name, datatype, shape, bytes } in tensors {
        inputs.push(InferInputTensor { name, datatype, shape, ..Default::default() });
        contents.push(bytes.into());
    }
    ModelInferRequest {
        model_name: model.to_owned(),
        inputs,
        raw_input_contents: contents,
        ..Default::default()
    }
}

/// Not compressed; its length, and the message.
fn grpc_frame(message: &ModelInferRequest) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(message.encoded_len() as u32);
    frame.put_slice(&message.encode_to_vec());
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = br#"{"inputs": [
        {"name": "A", "datatype": "FP32", "shape": [1, 2], "data": [1.5, -2]},
        {"name": "B", "datatype": "INT32", "shape": [1], "data": [7]}]}"#;

    #[test]
    fn tensors_become_bytes_in_both_binary_forms() {
        let tensors = [&1.5f32.to_le_bytes()[..], &(-2.0f32).to_le_bytes()].concat();
        let request = WireRequest::new(WireForm::Binary, "m", TEXT).expect("a good request");
        let header = request.header_bytes.expect("a header");
        assert_eq!(request.body[header..], [&tensors[..], &7i32.to_le_bytes()].concat());
        let request = WireRequest::new(WireForm::Grpc, "m", TEXT).expect("a good request");
        let message = ModelInferRequest::decode(&request.body[5..]).expect("a message");
        assert_eq!(message.model_name, "m");
        assert_eq!(message.raw_input_contents[0], tensors);
        assert_eq!(message.inputs[1].shape, [1]);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (text, want) in [
            ("{", "it is not JSON"),
            ("{}", "it has no list `inputs`"),
            (r#"{"inputs": [{"name": "A", "datatype": "INT8", "shape": [1], "data": [1]}]}"#, "A"),
        ] {
            let error = WireRequest::new(WireForm::Grpc, "m", text.as_bytes()).err();
            let error = format!("{:#}", error.expect("an error"));
            assert!(error.contains(want), "{error}");
        }
    }
}
