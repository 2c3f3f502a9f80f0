//! Files of PyTorch: what PyTorch wrote is read as PyTorch reads it, what would run is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use serde::Deserialize;
use tempfile::NamedTempFile;
use terrace_model::Weights;
use terrace_model::torch_file::{TorchDtype, TorchFile, TorchTensor, TorchValue};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/torch").join(name)
}

fn open(name: &str) -> TorchFile {
    TorchFile::open(&path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// As PyTorch prints it.
#[derive(Deserialize)]
struct Printed {
    dtype: String,
    shape: Vec<usize>,
    values: Vec<f64>,
}

#[test]
fn tensors_are_those_of_pytorch() {
    let file = open("tensors.pth");
    let text = fs::read_to_string(path("values.json")).expect("the printed values");
    let printed: BTreeMap<String, Printed> = serde_json::from_str(&text).expect("values");
    let tensors: BTreeMap<String, &TorchTensor> = file.value().tensors().into_iter().collect();
    assert_eq!(tensors.keys().collect::<Vec<_>>(), printed.keys().collect::<Vec<_>>());
    for (name, printed) in printed {
        let tensor = tensors[&name];
        assert_eq!(tensor.dtype().name(), printed.dtype, "{name}");
        assert_eq!(tensor.shape(), printed.shape, "{name}");
        assert_eq!(numbers(&file, tensor), printed.values, "{name}");
        let in_place = file.bytes_in_place(tensor).is_some();
        let is_strided = ["columns", "turned", "every_other", "deep", "bf16_turned", "one_column"];
        assert_eq!(in_place, !is_strided.contains(&name.as_str()), "{name}");
    }
}

fn numbers(file: &TorchFile, tensor: &TorchTensor) -> Vec<f64> {
    let mut bytes = vec![0; tensor.elements() * tensor.dtype().bytes()];
    tensor.copy_to(file.map().bytes(), &mut bytes);
    if let Some(in_place) = file.bytes_in_place(tensor) {
        assert_eq!(in_place, bytes, "one way or the other");
    }
    fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks().0.iter().map(|&chunk| read(chunk)).collect()
    }
    match tensor.dtype() {
        TorchDtype::F64 => each(&bytes, f64::from_le_bytes),
        TorchDtype::F32 => each(&bytes, |bytes| f32::from_le_bytes(bytes).into()),
        TorchDtype::F16 => each(&bytes, |bytes| f16::from_le_bytes(bytes).into()),
        TorchDtype::Bf16 => each(&bytes, |bytes| bf16::from_le_bytes(bytes).into()),
        TorchDtype::F8E4M3 => each(&bytes, |[byte]| small_float(byte, 3, 7)),
        TorchDtype::F8E5M2 => each(&bytes, |[byte]| small_float(byte, 2, 15)),
        TorchDtype::I64 => each(&bytes, |bytes| i64::from_le_bytes(bytes) as f64),
        TorchDtype::I32 => each(&bytes, |bytes| i32::from_le_bytes(bytes).into()),
        TorchDtype::I16 => each(&bytes, |bytes| i16::from_le_bytes(bytes).into()),
        TorchDtype::I8 => each(&bytes, |bytes| i8::from_le_bytes(bytes).into()),
        TorchDtype::U8 | TorchDtype::Bool => each(&bytes, |[byte]| byte.into()),
    }
}

/// A normal number of 8 bits.
fn small_float(byte: u8, fraction_bits: u32, bias: i32) -> f64 {
    let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
    let fraction = f64::from(byte & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let exponent = i32::from((byte & 0x7f) >> fraction_bits) - bias;
    sign * (1.0 + fraction) * f64::from(exponent).exp2()
}

#[test]
fn checkpoints_are_trees_of_values() {
    let file = open("checkpoint.pth");
    let value = |key: &str| file.value().get(key).unwrap_or_else(|| panic!("{key}"));
    assert_eq!(*value("epoch"), TorchValue::Int(3));
    assert_eq!(*value("seed"), TorchValue::Int(u64::MAX.into()));
    assert_eq!(*value("loss"), TorchValue::Float(0.125));
    assert_eq!(value("name").as_text(), Some("größer"));
    assert_eq!(value("dtype").as_text(), Some("torch.bfloat16"));
    assert_eq!(value("device").as_text(), Some("cpu"));
    assert_eq!(*value("raw"), TorchValue::Bytes([0, 255].into()));
    let sizes = vec![TorchValue::Int(2), TorchValue::Int(3)];
    assert_eq!(*value("size"), TorchValue::Tuple(sizes));
    assert_eq!(*value("kinds"), TorchValue::List(vec![TorchValue::Int(5)]));
    let names: Vec<String> = file.value().tensors().into_iter().map(|(name, _)| name).collect();
    for name in ["notes.3.inner", "optimizer_state_dict.state.0.exp_avg"] {
        assert!(names.iter().any(|found| found == name), "{name} of {names:?}");
    }
    let weights = Weights::from_torch(&[file]).expect("a state dict");
    let names: Vec<&str> = weights.names().collect();
    assert_eq!(names, ["0.bias", "0.weight", "1.bias", "1.weight"]);
    assert_eq!(weights.vector("1.bias").expect("a bias"), [3.499, 3.499]);
}

#[test]
fn weights_are_read_in_any_order() {
    let weights = Weights::from_torch(&[open("tensors.pth")]).expect("a state dict");
    let turned = weights.matrix("turned").expect("a matrix");
    assert_eq!([turned.rows(), turned.columns()], [6, 4]);
    let row: Vec<u8> = [1.0f32, 7.0, 13.0, 19.0].iter().flat_map(|it| it.to_le_bytes()).collect();
    assert_eq!(turned.row(1), row);
    assert_eq!(weights.integers("i64"), Some(vec![1, -(1 << 40)]));
    assert_eq!(weights.vector("every_other").expect("f32")[..3], [0.0, 2.0, 4.0]);
    let message = weights.vector("f64").expect_err("no weights").to_string();
    assert!(message.contains("\"f64\" is stored as float64"), "{message}");
    assert!(weights.matrix("empty").is_err());
    let twice = Weights::from_torch(&[open("protocol-4.pth"), open("protocol-4.pth")]);
    let message = twice.err().expect("two shards with one tensor").to_string();
    assert!(message.contains("\"w\" is there twice"), "{message}");
}

#[test]
fn book_keeping_of_distributed_training_is_read_over() {
    let file = open("sharded.pth");
    let state = file.state_dict().expect("a state dict");
    let class = "torch.distributed._shard.sharded_tensor.api.ShardedTensor";
    assert_eq!(state.get("table"), Some(&TorchValue::Opaque(class)));
    assert_eq!(state.get("extra"), Some(&TorchValue::Opaque("_io.BytesIO")));
    let names: Vec<String> = state.tensors().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["weight"]);
}

#[track_caller]
fn refused(name: &str, problem: &str) {
    let message = TorchFile::open(&path(name)).err().expect(name).to_string();
    assert!(message.contains(problem), "{name}: {message}");
}

#[test]
fn what_is_not_data_is_refused_by_name() {
    refused("hostile-system.pth", "it refers to posix.system, which is not data");
    refused("hostile-eval.pth", "it refers to __builtin__.eval, which is not data");
    refused("hostile-getattr.pth", "it refers to builtins.getattr(..., \"upper\")");
}

#[test]
fn bombs_are_refused_before_they_grow() {
    refused("hostile-doubled.pth", "more than 1048576 values in its tree");
    refused("hostile-deep.pth", "more than 64 containers in each other");
    refused("hostile-itself.pth", "more than 64 containers in each other");
    refused("hostile-stack.pth", "ends at byte 3002");
}

#[test]
fn files_of_other_forms_say_what_to_do() {
    refused("before-1.6.pth", "write it again with torch.save");
    refused("values.json", "it is not a zip archive");
}

#[test]
fn truncated_files_are_refused() {
    for name in ["tensors.pth", "checkpoint.pth", "protocol-4.pth"] {
        let bytes = fs::read(path(name)).expect(name);
        for end in (0..bytes.len()).step_by(7) {
            assert!(open_bytes(&bytes[..end]).is_none(), "{end} bytes of {name}");
        }
    }
}

#[test]
fn flipped_bits_never_lead_out_of_the_file() {
    let bytes = fs::read(path("tensors.pth")).expect("a file");
    for at in (0..bytes.len()).step_by(3) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        if let Some(file) = open_bytes(&flipped) {
            file.value().tensors().into_iter().for_each(|(_, tensor)| drop(numbers(&file, tensor)));
        }
    }
}

#[test]
fn flipped_bits_of_numbers_are_noticed() {
    let name = "checkpoint.pth";
    let bytes = fs::read(path(name)).expect("a file");
    let whole = open_bytes(&bytes).expect("a whole file");
    whole.check_sums().expect("nothing is flipped");
    let mut checked = 0;
    for (tensor_name, tensor) in whole.value().tensors() {
        let Some(range) = tensor.range().filter(|range| !range.is_empty()) else { continue };
        for at in [range.start, range.end - 1] {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            let file = open_bytes(&flipped).expect("its pickle is whole");
            let error = file.check_sums().expect_err(&tensor_name).to_string();
            assert!(error.contains("/data/") && error.contains("is damaged"), "{error}");
            checked += 1;
        }
    }
    assert!(0 < checked);
}

fn open_bytes(bytes: &[u8]) -> Option<TorchFile> {
    let file = NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), bytes).expect("the file can be written");
    TorchFile::open(file.path()).ok()
}
