//! Safetensors folders, right and wrong.

use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use terrace_kernels::WeightFormat;
use terrace_model::{TensorInfo, Weights};

use crate::safetensors_writer::SafetensorsWriter;

#[test]
fn one_file_is_read_in_place() {
    let folder = folder(&[("model.safetensors", sample().to_bytes())]);
    let weights = Weights::open_safetensors(folder.path()).expect("a good folder");

    assert_eq!(weights.names().collect::<Vec<_>>(), ["bias", "norm", "scale", "w"]);
    let info = TensorInfo { format: WeightFormat::F32, shape: vec![2, 3] };
    assert_eq!(weights.info("w"), Some(&info));
    let matrix = weights.matrix("w").expect("a matrix");
    let row: Vec<u8> = [4.0f32, 5.0, 6.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(matrix.row(1), row);
    assert_eq!(weights.vector("norm").expect("bf16"), [1.0, -2.0]);
    assert_eq!(weights.vector("scale").expect("f16"), [0.5]);
    assert_eq!(weights.vector("bias").expect("f32"), [7.0]);
    assert_eq!(weights.total_bytes(), 24 + 4 + 2 + 4);
}

#[test]
fn wrong_reads_name_the_tensor() {
    let folder = folder(&[("model.safetensors", sample().to_bytes())]);
    let weights = Weights::open_safetensors(folder.path()).expect("a good folder");
    let message = |name| match (weights.matrix(name), weights.vector(name)) {
        (Err(error), _) => error.to_string(),
        (_, Err(error)) => error.to_string(),
        _ => panic!("{name} was read"),
    };
    assert!(message("w").contains("\"w\" has shape [2, 3], but must have 1"), "{}", message("w"));
    assert!(message("bias").contains("must have 2 dimensions"), "{}", message("bias"));
    assert!(message("ids").contains("\"ids\" is stored as I64"), "{}", message("ids"));
    assert!(message("none").contains("\"none\" is stored as nothing"), "{}", message("none"));
    assert!(message("missing").contains("no tensor \"missing\""), "{}", message("missing"));
    assert_eq!(weights.info("ids"), None);
}

#[test]
fn shards_are_joined() {
    let weights = Weights::open_safetensors(
        sharded(json!({ "a": "one.safetensors", "b": "two.safetensors" })).path(),
    )
    .expect("a good folder");
    assert_eq!(weights.vector("a").expect("first shard"), [1.0]);
    assert_eq!(weights.vector("b").expect("second shard"), [2.0]);
}

#[test]
fn broken_indexes_are_refused() {
    let refused = |map, problem: &str| check(sharded(map).path(), problem);
    refused(json!({ "a": "three.safetensors" }), "three.safetensors");
    refused(json!({ "a": "one.safetensors", "c": "two.safetensors" }), "\"c\" is not in its shard");
    refused(json!({ "a": "../one.safetensors" }), "not a file name in this folder");
    refused(json!({ "a": "/etc/passwd" }), "not a file name in this folder");
    refused(json!({ "a": ".." }), "not a file name in this folder");
    refused(json!({ "a": "" }), "not a file name in this folder");
    refused(json!({ "a": "one.safetensors", "b": "copy.safetensors" }), "\"a\" is in two shards");
    refused(json!(3), "index.json");
}

#[test]
fn broken_files_are_refused() {
    let refused = |bytes: &[u8], problem| {
        let folder = folder(&[("model.safetensors", bytes.to_vec())]);
        check(folder.path(), problem);
    };
    let good = sample().to_bytes();
    refused(b"", "0 bytes hold no header");
    refused(&good[..good.len() - 1], "bytes, but the file holds");
    let mut long = good;
    long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    refused(&long, "18446744073709551615 bytes, but");
    refused(&SafetensorsWriter::default().f32("a", &[2], &[1.0]).to_bytes(), "invalid shape");
    // Sizes whose sum passes 2^64, which a careless reader would add up to a small number.
    let wrapping = (0..9).fold(String::new(), |header, i: u64| {
        let (start, end) = (i << 60, (i + 1) << 60);
        header
            + &format!(
                r#","{i}":{{"dtype":"F32","shape":[{}],"data_offsets":[{start},{end}]}}"#,
                1u64 << 58
            )
    });
    let header = format!("{{{}}}", &wrapping[1..]);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    refused(&bytes, "but the file holds 0");
    check(folder(&[]).path(), "model.safetensors");
}

pub fn sample() -> SafetensorsWriter {
    SafetensorsWriter::default()
        .tensor("norm", "BF16", &[2], &[0x80, 0x3F, 0x00, 0xC0])
        .tensor("scale", "F16", &[1], &[0x00, 0x38])
        .tensor("ids", "I64", &[1], &[1, 0, 0, 0, 0, 0, 0, 0])
        .f32("w", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        .f32("none", &[0, 1 << 62], &[])
        .f32("bias", &[1], &[7.0])
}

fn sharded(weight_map: serde_json::Value) -> TempDir {
    let one = SafetensorsWriter::default().f32("a", &[1], &[1.0]).to_bytes();
    let two = SafetensorsWriter::default().f32("b", &[1], &[2.0]).to_bytes();
    let index = json!({ "metadata": { "total_size": 8 }, "weight_map": weight_map }).to_string();
    folder(&[
        ("one.safetensors", one.clone()),
        ("two.safetensors", two),
        ("copy.safetensors", one),
        ("model.safetensors.index.json", index.into_bytes()),
    ])
}

fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).expect("the folder can be written");
    }
    folder
}

#[track_caller]
fn check(folder: &Path, problem: &str) {
    let Err(error) = Weights::open_safetensors(folder) else { panic!("wanted: {problem}") };
    let message = error.to_string();
    assert!(message.contains(problem), "wanted {problem:?} in {message:?}");
}
