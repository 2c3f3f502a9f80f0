//! Responses as clients read them.

use serde_json::{Value, json};

use super::*;
use crate::kserve::infer_outputs::InferOutputs;

fn inferred(id: &str, tensors: Vec<Tensor>) -> Inferred {
    let parameters = Parameters::from([("NumSample".to_owned(), Parameter::Int(2))]);
    let outputs = InferOutputs { tensors, parameters, ..InferOutputs::default() };
    Inferred { id: id.to_owned(), model: "m".to_owned(), version: 3, outputs }
}

fn scores() -> Tensor {
    let data = TensorData::Fp32(vec![0.1, f32::NAN]);
    Tensor::new("S", vec![1, 2], data).expect("its shape is right")
}

#[test]
fn json_has_a_flat_list() {
    let texts = Tensor::list("T", TensorData::Bytes(vec!["a\"".into(), "é".into()]));
    let body = ReplyBody::new(&inferred("7", vec![scores(), texts]), &ReplyForm::new(false));
    let ReplyBody { bytes, json_bytes } = body.expect("all have a form in JSON");
    assert_eq!(json_bytes, None);
    let want = json!({
        "id": "7", "model_name": "m", "model_version": "3", "parameters": {"NumSample": 2},
        "outputs": [
            {"name": "S", "datatype": "FP32", "shape": [1, 2], "data": [0.1, null]},
            {"name": "T", "datatype": "BYTES", "shape": [2], "data": ["a\"", "é"]},
        ],
    });
    assert_eq!(serde_json::from_slice::<Value>(&bytes).expect("JSON"), want);
}

#[test]
fn bytes_follow_in_the_order_of_the_outputs() {
    let ids = Tensor::list("I", TensorData::Int64(vec![-1]));
    let narrow = Tensor::list("N", TensorData::Bf16(vec![0x3f80]));
    let mut form = ReplyForm::new(true);
    form.set("I", false);
    let body = ReplyBody::new(&inferred("", vec![scores(), ids, narrow]), &form);
    let ReplyBody { bytes, json_bytes } = body.expect("nothing is wrong");
    let (json, binary) = bytes.split_at(json_bytes.expect("there are bytes"));
    let json: Value = serde_json::from_slice(json).expect("JSON");
    assert_eq!(json.get("id"), None);
    assert_eq!(json["outputs"][0]["parameters"], json!({"binary_data_size": 8}));
    assert_eq!(json["outputs"][0].get("data"), None);
    assert_eq!(json["outputs"][1]["data"], json!([-1]));
    assert_eq!(json["outputs"][2]["parameters"], json!({"binary_data_size": 2}));
    let want = [&0.1_f32.to_le_bytes()[..], &f32::NAN.to_le_bytes(), &[0x80, 0x3f]].concat();
    assert_eq!(binary, want);
}

#[test]
fn an_empty_output_may_be_binary_too() {
    let empty = Tensor::list("E", TensorData::Fp32(Vec::new()));
    let body = ReplyBody::new(&inferred("", vec![empty]), &ReplyForm::new(true));
    let ReplyBody { bytes, json_bytes } = body.expect("nothing is wrong");
    assert_eq!(json_bytes, Some(bytes.len()));
}

#[test]
fn what_has_no_form_in_json_is_said() {
    for (data, part) in [
        (TensorData::Fp16(vec![0]), "FP16, which has no form in JSON"),
        (TensorData::Bytes(vec![bytes::Bytes::from_static(&[255])]), "no UTF-8"),
    ] {
        let tensors = vec![Tensor::list("T", data)];
        let error = ReplyBody::new(&inferred("", tensors), &ReplyForm::new(false));
        let error = error.err().expect("it has no form").message;
        assert!(error.contains(part) && error.contains("output \"T\""), "{error}");
    }
}
