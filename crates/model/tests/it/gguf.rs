//! GGUF files, right and wrong.

use std::path::PathBuf;

use tempfile::TempDir;
use terrace_kernels::WeightFormat;
use terrace_model::{GgufFile, TensorInfo, Weights};

use crate::gguf_writer::{ARRAY, GgufWriter, I32, TENSOR_F32, TENSOR_Q8_0, TEXT, U32, array, text};

#[test]
fn metadata_is_read_by_type() {
    let writer = GgufWriter::new()
        .text("general.architecture", "llama")
        .u32("llama.block_count", 30)
        .f32("llama.rope.freq_base", 1e5)
        .bool("tokenizer.ggml.add_bos_token", false)
        .texts("tokenizer.ggml.tokens", &["a", "", "▁é"])
        .i32s("tokenizer.ggml.token_type", &[1, 3, 6])
        .f32s("tokenizer.ggml.scores", &[-1.5, 0.0]);
    let file = open(&writer).expect("a good file");

    assert_eq!(file.require::<&str>("general.architecture").expect("text"), "llama");
    assert_eq!(file.require::<u64>("llama.block_count").expect("number"), 30);
    assert_eq!(file.require::<f64>("llama.block_count").expect("a number widens"), 30.0);
    assert_eq!(file.require::<f64>("llama.rope.freq_base").expect("float"), 1e5);
    assert!(!file.require::<bool>("tokenizer.ggml.add_bos_token").expect("bool"));
    assert_eq!(file.require::<Vec<&str>>("tokenizer.ggml.tokens").expect("texts"), ["a", "", "▁é"]);
    assert_eq!(file.require::<Vec<u64>>("tokenizer.ggml.token_type").expect("ids"), [1, 3, 6]);
    assert_eq!(file.require::<Vec<f64>>("tokenizer.ggml.scores").expect("scores"), [-1.5, 0.0]);
    assert_eq!(file.get::<u64>("llama.expert_count").expect("absent is no error"), None);
    assert_eq!(file.keys().count(), 7);
}

#[test]
fn metadata_of_another_type_is_an_error() {
    let writer = GgufWriter::new().text("a", "text").raw("b", I32, (-1i32).to_le_bytes().into());
    let file = open(&writer).expect("a good file");
    let message = |error: terrace_model::Error| error.to_string();

    let error = message(file.get::<u64>("a").expect_err("a text"));
    assert!(error.contains("\"a\"") && error.contains("a text of 4 bytes"), "{error}");
    let error = message(file.get::<u64>("b").expect_err("a negative number"));
    assert!(error.contains("the number -1") && error.contains("0 or more"), "{error}");
    let error = message(file.require::<u64>("c").expect_err("absent"));
    assert!(error.contains("no metadata \"c\""), "{error}");
}

#[test]
fn tensors_are_found_with_their_dimensions_reversed() {
    let rows: Vec<u8> = (0..2 * 34).collect();
    for version in [2, 3] {
        let mut writer = GgufWriter::new().f32_tensor("norm", &[3], &[1.0, 2.0, 3.0]).tensor(
            "q",
            TENSOR_Q8_0,
            &[2, 32],
            rows.clone(),
        );
        writer.version = version;
        let weights = Weights::from_gguf(&open(&writer).expect("a good file"));

        assert_eq!(weights.names().collect::<Vec<_>>(), ["norm", "q"]);
        let info = TensorInfo { format: WeightFormat::Q8_0, shape: vec![2, 32] };
        assert_eq!(weights.info("q"), Some(&info));
        let matrix = weights.matrix("q").expect("a matrix");
        assert_eq!((matrix.rows(), matrix.columns()), (2, 32));
        assert_eq!(matrix.row(1), &rows[34..]);
        assert_eq!(weights.vector("norm").expect("a vector"), [1.0, 2.0, 3.0]);
        assert_eq!(weights.total_bytes(), 12 + 68);
    }
}

#[test]
fn another_alignment_is_followed() {
    let mut writer = GgufWriter::new()
        .u32("general.alignment", 128)
        .f32_tensor("a", &[1], &[1.0])
        .f32_tensor("b", &[1], &[2.0]);
    writer.alignment = 128;
    let weights = Weights::from_gguf(&open(&writer).expect("a good file"));
    assert_eq!(weights.vector("b").expect("a vector"), [2.0]);

    refused(&GgufWriter::new().u32("general.alignment", 48), "power of two");
    refused(&GgufWriter::new().u32("general.alignment", 0), "power of two");
}

#[test]
fn other_files_and_versions_are_refused() {
    refused_bytes(b"", "wanted 4 bytes");
    refused_bytes(b"GGML.....", "begin with GGUF");
    for (version, problem) in [(1, "version 1"), (3u32.swap_bytes(), "big-endian")] {
        let mut writer = GgufWriter::new();
        writer.version = version;
        refused(&writer, problem);
    }
}

#[test]
fn counts_larger_than_the_file_are_refused() {
    let huge = u64::MAX.to_le_bytes();
    let mut bytes = GgufWriter::new().u32("a", 1).to_bytes();
    bytes[8..16].copy_from_slice(&huge);
    refused_bytes(&bytes, "18446744073709551615 tensors");
    let mut bytes = GgufWriter::new().u32("a", 1).to_bytes();
    bytes[16..24].copy_from_slice(&huge);
    refused_bytes(&bytes, "18446744073709551615 metadata values");

    refused(&GgufWriter::new().raw("a", TEXT, huge.into()), "bytes of text");
    refused(&GgufWriter::new().raw("a", ARRAY, array(U32, usize::MAX, [])), "array values");
    refused(&GgufWriter::new().raw("a", ARRAY, array(TEXT, 1 << 40, [])), "array values");
}

#[test]
fn nested_arrays_are_read_but_not_without_end() {
    let nested =
        |levels: usize| (0..levels).fold(array(U32, 0, []), |inner, _| array(ARRAY, 1, inner));
    let file = open(&GgufWriter::new().raw("a", ARRAY, nested(1))).expect("one level is fine");
    file.get::<Vec<u64>>("a").expect_err("but it is not an array of numbers");
    refused(&GgufWriter::new().raw("a", ARRAY, nested(9)), "4 deep");
}

#[test]
fn broken_metadata_is_refused() {
    let mut not_utf8 = text("ab");
    not_utf8[8] = 0xFF;
    refused(&GgufWriter::new().raw("a", TEXT, not_utf8), "not UTF-8");
    refused(&GgufWriter::new().raw("a", 99, vec![]), "metadata type 99");
    refused(&GgufWriter::new().u32("a", 1).u32("a", 1), "\"a\" is there twice");
}

#[test]
fn broken_tensors_are_refused_by_name() {
    let tensor = |type_id, shape: &[u64], bytes| {
        GgufWriter::new().tensor("blk.0.q", type_id, shape, vec![0; bytes])
    };
    refused(&tensor(15, &[1, 256], 292), "\"blk.0.q\" has type 15 (Q8_K)");
    refused(&tensor(999, &[1, 256], 176), "type 999 (unknown)");
    refused(&tensor(TENSOR_Q8_0, &[2, 33], 68), "33 weights, which do not fill Q8_0");
    refused(&tensor(TENSOR_F32, &[64], 0), "outside the file");
    refused(&tensor(TENSOR_F32, &[1 << 40, 1 << 40], 4), "too many weights");
    refused(&tensor(TENSOR_F32, &[4, 0], 4), "empty");
    refused(&tensor(TENSOR_F32, &[], 4), "0 dimensions");
    refused(&tensor(TENSOR_F32, &[1; 5], 4), "5 dimensions");

    let twice = GgufWriter::new().f32_tensor("a", &[1], &[1.0]).f32_tensor("a", &[1], &[1.0]);
    refused(&twice, "\"a\" is there twice");
    let mut misaligned =
        GgufWriter::new().f32_tensor("a", &[1], &[1.0]).f32_tensor("b", &[1], &[1.]);
    misaligned.alignment = 4;
    refused(&misaligned, "\"b\" begins at 4, not a multiple of 32");
}

fn open(writer: &GgufWriter) -> Result<GgufFile, terrace_model::Error> {
    let (_folder, path) = written(&writer.to_bytes());
    GgufFile::open(&path)
}

#[track_caller]
fn refused(writer: &GgufWriter, problem: &str) {
    refused_bytes(&writer.to_bytes(), problem);
}

#[track_caller]
fn refused_bytes(bytes: &[u8], problem: &str) {
    let (_folder, path) = written(bytes);
    let Err(error) = GgufFile::open(&path) else { panic!("opened, but wanted: {problem}") };
    let message = error.to_string();
    assert!(message.contains(problem), "wanted {problem:?} in {message:?}");
    assert!(message.contains("model.gguf"), "the path is missing in {message:?}");
}

fn written(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, bytes).expect("the folder can be written");
    (folder, path)
}
