//! Bodies as clients send them, and bodies that lie.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::kserve::tensor_data::TensorData;

fn parse(json: &Value, binary: &[u8]) -> Result<InferBody, String> {
    let json = json.to_string();
    let body = Bytes::from([json.as_bytes(), binary].concat());
    let json_bytes = (!binary.is_empty()).then_some(json.len());
    InferBody::parse(&body, json_bytes).map_err(|error| error.message)
}

#[track_caller]
fn check_refused(json: Value, binary: &[u8], want: &str) {
    let error = parse(&json, binary).err().expect("something is wrong");
    assert!(error.contains(want), "{json}: {error}");
}

#[test]
fn a_whole_request_is_read() {
    let json = json!({
        "id": "r1",
        "parameters": {"timeout": 2000, "priority": 2, "binary_data_output": true, "k": "v"},
        "inputs": [
            {"name": "A", "shape": [2], "datatype": "INT64", "data": [1, -2]},
            {"name": "B", "shape": [1, 2], "datatype": "FP32",
             "parameters": {"binary_data_size": 8}},
            // Data first, as no client writes it and any may.
            {"data": [["x"], ["y"]], "name": "C", "shape": [2, 1], "datatype": "BYTES"},
            {"name": "D", "shape": [0], "datatype": "UINT8", "parameters": {"binary_data_size": 0}}
        ],
        "outputs": [
            {"name": "P", "parameters": {"binary_data": false}},
            {"name": "Q", "parameters": {"classification": 3}},
        ],
    });
    let binary = [0.5_f32, -1.0].map(f32::to_le_bytes).concat();
    let InferBody { request, form, unknown } = parse(&json, &binary).expect("nothing is wrong");
    assert_eq!((request.id.as_str(), request.priority), ("r1", 2));
    assert_eq!(request.timeout, Some(Duration::from_millis(2)));
    assert_eq!(request.parameters.len(), 1);
    let tensor = |name: &str, shape: &[i64], data| {
        Tensor::new(name, shape.to_vec(), data).expect("its shape is right")
    };
    let want = [
        tensor("A", &[2], TensorData::Int64(vec![1, -2])),
        tensor("B", &[1, 2], TensorData::Fp32(vec![0.5, -1.0])),
        tensor("C", &[2, 1], TensorData::Bytes(vec!["x".into(), "y".into()])),
        tensor("D", &[0], TensorData::Uint8(Vec::new())),
    ];
    assert_eq!(request.tensors, want);
    let output = |name: &str, classes| RequestedOutput { name: name.to_owned(), classes };
    assert_eq!(request.outputs, [output("P", None), output("Q", Some(3))]);
    assert!(!form.is_binary("P") && form.is_binary("Q") && form.is_binary("R"));
    assert!(unknown.is_empty());
}

#[test]
fn bytes_behind_the_json_must_be_those_that_are_announced() {
    let input = |size: Value| {
        let parameters = json!({"binary_data_size": size});
        json!({"inputs": [{"name": "A", "shape": [2], "datatype": "INT32",
            "parameters": parameters}]})
    };
    assert!(parse(&input(json!(8)), &[0; 8]).is_ok());
    check_refused(input(json!(8)), &[0; 7], "is 8, and 7 bytes are left of the 7 behind the JSON");
    check_refused(input(json!(8)), &[0; 9], "1 of the 9 bytes behind the JSON belong to no input");
    check_refused(input(json!(7)), &[0; 8], "its data has 7 bytes, and 2 elements of INT32 have 4");
    check_refused(input(json!(u64::MAX)), &[0; 8], "is 18446744073709551615, and 8 bytes are left");
    check_refused(input(json!(-1)), &[0; 8], "binary_data_size is -1");
    check_refused(input(json!("8")), &[0; 8], "binary_data_size is \"8\"");
    check_refused(input(json!(8)), &[], "is 8, and 0 bytes are left");
    let both = json!({"inputs": [{"name": "A", "shape": [1], "datatype": "UINT8", "data": [1],
        "parameters": {"binary_data_size": 1}}]});
    check_refused(both, &[1], "has data and binary_data_size");
    let two = |sizes: [usize; 2]| {
        let input = |name: &str, size: usize| {
            json!({"name": name, "shape": [size], "datatype": "UINT8",
                "parameters": {"binary_data_size": size}})
        };
        json!({"inputs": [input("A", sizes[0]), input("B", sizes[1])]})
    };
    assert!(parse(&two([3, 5]), &[0; 8]).is_ok());
    check_refused(two([5, 5]), &[0; 8], "of input \"B\" is 5, and 3 bytes are left of the 8");
}

#[test]
fn the_end_of_the_json_must_be_in_the_body() {
    let body = Bytes::from_static(br#"{"inputs":[]}"#);
    assert!(InferBody::parse(&body, Some(13)).is_ok());
    let error = InferBody::parse(&body, Some(14)).err().expect("it is behind the body");
    assert_eq!(error.message, "Inference-Header-Content-Length is 14, and the body has 13 bytes");
    assert!(InferBody::parse(&body, Some(12)).is_err());
    assert!(InferBody::parse(&body, Some(0)).is_err());
    let not_text = Bytes::from_static(b"{\"inputs\":[]}\xff");
    let error = InferBody::parse(&not_text, None).err().expect("it is not UTF-8");
    assert!(error.message.contains("byte 13 is wrong"), "{error}");
}

#[test]
fn shapes_and_types_that_lie_are_refused() {
    let input = |shape: Value, datatype: &str, data: Value| {
        let input = json!({"name": "A", "shape": shape, "datatype": datatype, "data": data});
        json!({"inputs": [input]})
    };
    assert!(parse(&input(json!([2]), "INT8", json!([1, 2])), &[]).is_ok());
    for (json, part) in [
        (input(json!([3]), "INT8", json!([1, 2])), "has 2 elements, and its shape [3] says"),
        (input(json!([1]), "INT8", json!([1, 2])), "more than the 1 elements of the shape"),
        (input(json!([-1]), "INT8", json!([1, 2])), "-1 is negative"),
        (input(json!([1_u64 << 62, 8]), "INT8", json!([1])), "more than can be counted"),
        (input(json!([0.5]), "INT8", json!([1])), "found"),
        (input(json!("2"), "INT8", json!([1])), "found"),
        (input(json!([1]), "int8", json!([1])), "the datatype \"int8\"; known: BOOL, UINT8"),
        (input(json!([1]), "INT8", json!([128])), "element 0 is 128"),
        (input(json!([1]), "BF16", json!([1])), "BF16 has no form in JSON"),
        (input(json!([1]), "INT8", json!({})), "found map"),
        (input(json!([1]), "INT8", Value::Null), "found"),
        (json!({"inputs": [{"name": "A", "shape": [1], "datatype": "INT8"}]}), "has no data"),
        (
            json!({"inputs": [{"name": "A", "datatype": "INT8", "data": []}]}),
            "shape of input \"A\"",
        ),
        (json!({"inputs": [{"name": "A", "shape": [0], "data": []}]}), "datatype of input \"A\""),
        (json!({"inputs": [{"shape": [0], "datatype": "INT8"}]}), "name of input \"\" is missing"),
        (json!({"inputs": {}}), "a list of tensors"),
        (json!({"inputs": [7]}), "an input: an object"),
        (json!({}), "inputs is missing"),
        (json!([]), "an object"),
        (json!({"inputs": [], "outputs": [{}]}), "name of an output is missing"),
        (json!({"inputs": [], "parameters": {"a": []}}), "a text as parameter \"a\""),
        (json!({"inputs": [], "parameters": {"a": null}}), "a text as parameter \"a\""),
        (json!({"inputs": [], "parameters": {"sequence_id": 7}}), "no models of sequences"),
    ] {
        check_refused(json, &[], part);
    }
}

#[test]
fn what_is_given_twice_or_not_known_is_refused_or_noted() {
    let twice = Bytes::from_static(br#"{"id": "a", "inputs": [], "id": "b"}"#);
    let error = InferBody::parse(&twice, None).err().expect("id is there twice");
    assert!(error.message.contains("\"id\" is given twice"), "{error}");
    let twice = Bytes::from_static(br#"{"inputs": [], "parameters": {"a": 1, "a": 2}}"#);
    let error = InferBody::parse(&twice, None).err().expect("a is there twice");
    assert!(error.message.contains("parameter \"a\" is given twice"), "{error}");
    let json = json!({"inputs": [{"name": "A", "shape": [0], "datatype": "INT8", "data": [],
        "dat": 1}], "outputs": [{"name": "B", "as": 1}], "model": "m"});
    let unknown = parse(&json, &[]).expect("it is noted").unknown;
    assert_eq!(unknown, ["model", "inputs[0].dat", "outputs[0].as"]);
    let with = |name: &str| {
        json!({"inputs": [{"name": "A", "shape": [0], "datatype": "INT8", "data": [],
            "parameters": {name: 1}}]})
    };
    check_refused(with("shared_memory_region"), &[], "is to be in shared memory");
    check_refused(
        with("zip"),
        &[],
        "input \"A\" has the parameter \"zip\" (1), which is not known",
    );
}

#[test]
fn half_a_request_is_an_error_and_no_panic() {
    let json = json!({"id": "a", "inputs": [{"name": "A", "shape": [2], "datatype": "BYTES",
        "parameters": {"binary_data_size": 10}}], "outputs": [{"name": "B"}]})
    .to_string();
    let binary = [1, 0, 0, 0, b'x', 1, 0, 0, 0, b'y'];
    let whole = Bytes::from([json.as_bytes(), &binary].concat());
    assert!(InferBody::parse(&whole, Some(json.len())).is_ok());
    for end in 0..whole.len() {
        assert!(InferBody::parse(&whole.slice(..end), Some(json.len())).is_err(), "{end}");
        assert!(InferBody::parse(&whole.slice(..end), None).is_err() || end == json.len());
        if end != json.len() {
            assert!(InferBody::parse(&whole, Some(end)).is_err(), "{end}");
        }
    }
}
