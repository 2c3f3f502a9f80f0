//! Weights of a shape that mean nothing, on the host.
//!
//! All layers have the same, whose rows repeat: no speed depends on it, and they cost no time and
//! little memory.

use std::sync::Arc;

use anyhow::Result;
use terrace_device::Buffer;
use terrace_kernels::random::SplitMix;
use terrace_kernels::{BiasedWeight, Matrix, WeightFormat};
use terrace_model::{AttentionSpec, DecoderSpec, DecoderTensors, FfnSpec, LayerTensors};

/// Random numbers after which they repeat.
const NUMBERS: usize = 1 << 20;

/// In bf16, in products with inputs of a unit's size about as large as these.
pub fn random_tensors(spec: &DecoderSpec) -> Result<DecoderTensors> {
    let mut random = SplitMix::new(1);
    let mut matrix = |rows: usize, columns: usize| -> Result<Matrix> {
        let size = 1.0 / (columns as f32).sqrt();
        let some: Vec<u8> = random
            .numbers(NUMBERS.min(rows * columns))
            .into_iter()
            // The upper half of an f32 is a bf16.
            .flat_map(|number| ((size * number).to_bits() >> 16).to_le_bytes().into_iter().take(2))
            .collect();
        let mut buffer = Buffer::zeroed(rows * columns * size_of::<u16>(), "random weights")?;
        for bytes in buffer.bytes_mut().chunks_mut(some.len()) {
            bytes.copy_from_slice(&some[..bytes.len()]);
        }
        Ok(Matrix::new(WeightFormat::Bf16, rows, columns, Arc::new(buffer)))
    };
    let hidden = spec.hidden;
    let layer = spec.layers.first().expect("a model has layers");
    let AttentionSpec::GroupedQuery(attention) = &layer.attention;
    let FfnSpec::Gated(ffn) = &layer.ffn;
    let (query, key) = (attention.query_width(), attention.kv_width());
    let extents = [
        [query, hidden],
        [key, hidden],
        [key, hidden],
        [hidden, query],
        [ffn.width, hidden],
        [ffn.width, hidden],
        [hidden, ffn.width],
    ];
    let mut matrices = Vec::new();
    for [rows, columns] in extents {
        matrices.push(matrix(rows, columns)?);
    }
    let biased = |i: usize| BiasedWeight { weight: matrices[i].clone(), bias: None };
    let layer = || LayerTensors {
        attention_norm: vec![1.0; hidden],
        query: biased(0),
        key: biased(1),
        value: biased(2),
        query_norm: None,
        key_norm: None,
        output: biased(3),
        ffn_norm: vec![1.0; hidden],
        gate: biased(4),
        up: biased(5),
        down: biased(6),
    };
    Ok(DecoderTensors {
        embed: matrix(spec.vocab, hidden)?,
        layers: spec.layers.iter().map(|_| layer()).collect(),
        final_norm: vec![1.0; hidden],
        head: if spec.tied_head { None } else { Some(matrix(spec.vocab, hidden)?) },
        adapter: None,
    })
}
