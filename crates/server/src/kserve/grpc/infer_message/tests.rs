//! Messages to requests, and messages that lie.

use prost::Message;

use super::*;
use crate::kserve::infer_outputs::InferOutputs;

fn input(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    InferInputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        ..InferInputTensor::default()
    }
}

fn parameters(given: &[(&str, Parameter)]) -> BTreeMap<String, InferParameter> {
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    given.map(|(name, value)| (name, value.into_message())).collect()
}

fn with(contents: InferTensorContents, input: InferInputTensor) -> InferInputTensor {
    InferInputTensor { contents: Some(contents), ..input }
}

fn of_inputs(inputs: Vec<InferInputTensor>) -> ModelInferRequest {
    ModelInferRequest { inputs, ..ModelInferRequest::default() }
}

#[track_caller]
fn check_refused(message: ModelInferRequest, want: &str) {
    let error = read_request(message).expect_err("something is wrong").message;
    assert!(error.contains(want), "{error}");
}

#[test]
fn raw_contents_are_those_of_the_inputs_in_order() {
    let message = ModelInferRequest {
        id: "a".to_owned(),
        parameters: parameters(&[("priority", Parameter::Uint(3)), ("k", Parameter::Double(0.5))]),
        inputs: vec![input("A", "INT32", &[2]), input("B", "BYTES", &[1])],
        outputs: vec![InferRequestedOutputTensor {
            name: "P".to_owned(),
            parameters: parameters(&[("classification", Parameter::Int(2))]),
        }],
        raw_input_contents: vec![
            Bytes::from_static(&[1, 0, 0, 0, 255, 255, 255, 255]),
            Bytes::from_static(&[1, 0, 0, 0, b'x']),
        ],
        ..ModelInferRequest::default()
    };
    let request = read_request(message).expect("nothing is wrong");
    let want = [
        Tensor::list("A", TensorData::Int32(vec![1, -1])),
        Tensor::list("B", TensorData::Bytes(vec!["x".into()])),
    ];
    assert_eq!(request.tensors, want);
    assert_eq!((request.id.as_str(), request.priority), ("a", 3));
    assert_eq!(request.parameters["k"], Parameter::Double(0.5));
    assert_eq!(request.outputs[0], RequestedOutput { name: "P".to_owned(), classes: Some(2) });
}

#[test]
fn contents_are_the_list_of_the_datatype() {
    let lists = || InferTensorContents::default();
    for (datatype, contents, want) in [
        (
            "BOOL",
            InferTensorContents { bool_contents: vec![true], ..lists() },
            TensorData::Bool(vec![true]),
        ),
        (
            "INT8",
            InferTensorContents { int_contents: vec![-128], ..lists() },
            TensorData::Int8(vec![-128]),
        ),
        (
            "UINT16",
            InferTensorContents { uint_contents: vec![65_535], ..lists() },
            TensorData::Uint16(vec![65_535]),
        ),
        (
            "INT64",
            InferTensorContents { int64_contents: vec![i64::MIN], ..lists() },
            TensorData::Int64(vec![i64::MIN]),
        ),
        (
            "UINT64",
            InferTensorContents { uint64_contents: vec![u64::MAX], ..lists() },
            TensorData::Uint64(vec![u64::MAX]),
        ),
        (
            "FP32",
            InferTensorContents { fp32_contents: vec![0.5], ..lists() },
            TensorData::Fp32(vec![0.5]),
        ),
        (
            "FP64",
            InferTensorContents { fp64_contents: vec![0.5], ..lists() },
            TensorData::Fp64(vec![0.5]),
        ),
        (
            "BYTES",
            InferTensorContents { bytes_contents: vec!["x".into()], ..lists() },
            TensorData::Bytes(vec!["x".into()]),
        ),
    ] {
        let message = of_inputs(vec![with(contents, input("A", datatype, &[1]))]);
        let request = read_request(message).expect("nothing is wrong");
        assert_eq!(request.tensors, [Tensor::list("A", want)]);
    }
    let empty = read_request(of_inputs(vec![input("A", "FP32", &[0, 4])]));
    assert_eq!(empty.expect("it has no data, and needs none").tensors[0].shape(), [0, 4]);
}

#[test]
fn messages_that_lie_are_refused() {
    let ints = |numbers: &[i32]| InferTensorContents {
        int_contents: numbers.to_vec(),
        ..InferTensorContents::default()
    };
    for (inputs, part) in [
        (vec![input("A", "INT32", &[1])], "input \"A\" has no data"),
        (vec![input("", "INT32", &[1])], "an input has no name"),
        (vec![input("A", "FP8", &[1])], "the datatype \"FP8\"; known: BOOL"),
        (vec![with(ints(&[1, 2]), input("A", "INT32", &[3]))], "has 2 elements, and its shape [3]"),
        (vec![with(ints(&[1, 2]), input("A", "INT32", &[-2]))], "-2 is negative"),
        (vec![with(ints(&[200]), input("A", "INT8", &[1]))], "element 0 of input \"A\" is 200"),
        (vec![with(ints(&[1]), input("A", "FP32", &[1]))], "that is not that of FP32"),
        (vec![with(ints(&[1]), input("A", "FP16", &[1]))], "has no list for"),
    ] {
        check_refused(of_inputs(inputs), part);
    }
    let raw = |raws: Vec<Bytes>, inputs| ModelInferRequest {
        raw_input_contents: raws,
        ..of_inputs(inputs)
    };
    let one = || Bytes::from_static(&[0; 4]);
    let int = || input("A", "INT32", &[1]);
    check_refused(raw(vec![one()], vec![int(), int()]), "1 entries for 2 inputs");
    check_refused(raw(vec![one(), one()], vec![int()]), "2 entries for 1 inputs");
    check_refused(raw(vec![one()], vec![with(ints(&[1]), int())]), "raw_input_contents too");
    check_refused(raw(vec![Bytes::new()], vec![int()]), "its data has 0 bytes");
    let shared = InferInputTensor {
        parameters: parameters(&[("shared_memory_region", Parameter::Text("r".to_owned()))]),
        ..int()
    };
    check_refused(of_inputs(vec![shared]), "shared memory");
    let empty = BTreeMap::from([("k".to_owned(), InferParameter::default())]);
    let message = ModelInferRequest { parameters: empty, ..ModelInferRequest::default() };
    check_refused(message, "parameter \"k\" has no value");
}

#[test]
fn broken_messages_are_errors_and_no_panic() {
    let ints = InferTensorContents { int_contents: vec![1, 2], ..InferTensorContents::default() };
    let message = of_inputs(vec![with(ints, input("A", "INT32", &[2]))]);
    let whole = message.encode_to_vec();
    for end in 0..whole.len() {
        if let Ok(message) = ModelInferRequest::decode(&whole[..end]) {
            drop(read_request(message));
        }
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut broken = whole.clone();
            broken[at] ^= 1 << bit;
            if let Ok(message) = ModelInferRequest::decode(broken.as_slice()) {
                drop(read_request(message));
            }
        }
    }
}

#[test]
fn a_response_has_the_bytes_of_its_outputs() {
    let tensors = vec![
        Tensor::list("A", TensorData::Fp32(vec![0.5])),
        Tensor::list("B", TensorData::Int64(Vec::new())),
    ];
    let parameters = Parameters::from([("NumSample".to_owned(), Parameter::Int(1))]);
    let outputs = InferOutputs { tensors, parameters, ..InferOutputs::default() };
    let model = "m".to_owned();
    let found = response(Inferred { id: String::new(), model, version: 2, outputs });
    assert_eq!((found.model_name.as_str(), found.model_version.as_str()), ("m", "2"));
    let raws = [Bytes::copy_from_slice(&0.5_f32.to_le_bytes()), Bytes::new()];
    assert_eq!(found.raw_output_contents, raws);
    assert_eq!(
        (found.outputs[0].datatype.as_str(), &found.outputs[0].shape[..]),
        ("FP32", &[1][..])
    );
    assert_eq!(found.parameters["NumSample"], Parameter::Int(1).into_message());
}
