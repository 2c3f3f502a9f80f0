//! Every kind of weights that GGUF files have: the numbers, and a whole model of each.

use std::io::Write;
use std::sync::Arc;

use terrace_device::DType;
use terrace_kernels::random::SplitMix;
use terrace_kernels::{Compute, CpuLevel, CpuOptions, Ops, WeightFormat, unpack_row};
use terrace_model::golden::PagedRun;
use terrace_model::{
    Adapter, Decoder, DecoderSpec, DecoderTensors, Families, GgufFile, ModelConfig, Weights,
};
use terrace_testkit::golden_set;

use crate::gguf_writer::{GgufWriter, TENSOR_F32};

/// GGUF's numbers for the kinds, in the order of [`WeightFormat::ALL`].
pub const TYPE_IDS: [u32; 14] = [TENSOR_F32, 1, 30, 2, 3, 6, 7, 8, 20, 10, 11, 12, 13, 14];

/// `tools/golden/gguf_kinds.py` wrote the file with the `gguf` package.
#[test]
fn every_kind_means_what_the_gguf_package_says() {
    let file = GgufFile::open(&golden_set("gguf").join("kinds.gguf")).expect("golden weights");
    let weights = Weights::from_gguf(&file);
    for format in WeightFormat::ALL {
        let found = numbers(&weights, format.name());
        let expected = numbers(&weights, &format!("{}.f32", format.name()));
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let is_same = found.to_bits() == expected.to_bits();
            assert!(is_same, "{} weight {i}: {found:e} for {expected:e}", format.name());
        }
    }
}

/// A model of each kind computes what the same model with its weights unpacked computes.
#[test]
fn a_model_of_each_kind_runs_as_its_f32_twin() {
    for (type_id, format) in TYPE_IDS.into_iter().zip(WeightFormat::ALL) {
        let seed = u64::from(type_id);
        let (packed, plain) = (llama(type_id, format, seed), f32_twin(type_id, format, seed));
        for level in CpuLevel::available() {
            let ops =
                Ops::cpu(CpuOptions { threads: 1, level: Some(level), compute: Compute::F32 })
                    .expect("a level");
            let [found, expected] =
                [&packed, &plain].map(|model| logits_of(&opened_model(model), None, &ops));
            assert!(expected.iter().all(|x| x.is_finite()), "{}", format.name());
            assert_eq!(found, expected, "{} at {}", format.name(), level.name());
        }
    }
}

fn numbers(weights: &Weights, name: &str) -> Vec<f32> {
    let matrix = weights.matrix(name).expect("a golden tensor");
    let mut numbers = vec![f32::NAN; matrix.rows() * matrix.columns()];
    unpack_row(matrix.format(), matrix.bytes(), &mut numbers);
    numbers
}

/// A Llama of one layer with random weights of one kind.
pub fn llama(type_id: u32, format: WeightFormat, seed: u64) -> GgufWriter {
    let mut random = SplitMix::new(seed);
    of_matrices(|writer, name, shape @ [rows, columns]| {
        let bytes = random.weights(format, (rows * columns) as usize);
        writer.tensor(name, type_id, &shape, bytes)
    })
}

/// The same model, with the numbers of [`llama`] as they are.
pub fn f32_twin(type_id: u32, format: WeightFormat, seed: u64) -> GgufWriter {
    let weights = Weights::from_gguf(&opened(&llama(type_id, format, seed)));
    of_matrices(|writer, name, shape| writer.f32_tensor(name, &shape, &numbers(&weights, name)))
}

fn of_matrices(mut add: impl FnMut(GgufWriter, &str, [u64; 2]) -> GgufWriter) -> GgufWriter {
    let (hidden, vocab, ffn, kv) = (256, 24, 256, 64);
    let mut writer = GgufWriter::new()
        .text("general.architecture", "llama")
        .u32("llama.block_count", 1)
        .u32("llama.context_length", 64)
        .u32("llama.embedding_length", hidden as u32)
        .u32("llama.feed_forward_length", ffn as u32)
        .u32("llama.attention.head_count", 4)
        .u32("llama.attention.head_count_kv", 1)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .f32("llama.rope.freq_base", 1e4);
    for (name, shape) in [
        ("token_embd.weight", [vocab, hidden]),
        ("blk.0.attn_q.weight", [hidden, hidden]),
        ("blk.0.attn_k.weight", [kv, hidden]),
        ("blk.0.attn_v.weight", [kv, hidden]),
        ("blk.0.attn_output.weight", [hidden, hidden]),
        ("blk.0.ffn_gate.weight", [ffn, hidden]),
        ("blk.0.ffn_up.weight", [ffn, hidden]),
        ("blk.0.ffn_down.weight", [hidden, ffn]),
    ] {
        writer = add(writer, name, shape);
    }
    for name in ["output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"] {
        writer = writer.f32_tensor(name, &[hidden], &vec![1.0; hidden as usize]);
    }
    writer
}

/// The decoder in a file.
pub fn opened_model(model: &GgufWriter) -> (DecoderSpec, DecoderTensors) {
    let file = opened(model);
    let config = ModelConfig::from_gguf(&file).expect("a configuration");
    Families::known().read(&config, &Weights::from_gguf(&file)).expect("a llama")
}

/// Of all positions of a short text, half of it a prompt.
pub fn logits_of(
    (spec, tensors): &(DecoderSpec, DecoderTensors),
    adapter: Option<&Adapter>,
    ops: &Ops,
) -> Vec<f32> {
    let adapter = adapter.cloned().map(Arc::new);
    let tensors = DecoderTensors { adapter, ..tensors.clone() };
    let decoder = Decoder::place(spec.clone(), tensors, ops, || {}).expect("a small model");
    let groups = decoder.spec().kv_groups(4, DType::F32);
    let text = vec![3, 1, 4, 1, 5, 9, 2, 6];
    let (length, prompt) = (text.len() + 1, text.len() / 2);
    let mut run = PagedRun::new(&decoder, ops, &groups, length, vec![prompt]).expect("a few pages");
    let rows = run.step(&[text], usize::MAX, |_| length).expect("a step").expect("logits");
    rows.into_iter().flat_map(|(_, _, row)| row).collect()
}

fn opened(writer: &GgufWriter) -> GgufFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&writer.to_bytes()).expect("the file can be written");
    GgufFile::open(file.path()).expect("a good file")
}
