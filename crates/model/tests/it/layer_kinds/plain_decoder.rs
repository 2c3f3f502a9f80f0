//! A decoder in plain loops over f64: the whole text at once, no pages, no kernels.

use std::sync::Arc;

use terrace_device::Buffer;
use terrace_kernels::random::SplitMix;
use terrace_kernels::{BiasedWeight, Matrix, WeightFormat};
use terrace_model::{
    AttentionSpec, DecoderSpec, DecoderTensors, FfnSpec, GatedSpec, GroupedQuerySpec, LayerTensors,
};

type Rows = Vec<Vec<f64>>;

/// Random tensors of a spec, in f32 and without biases.
pub fn random_tensors(spec: &DecoderSpec, seed: u64) -> DecoderTensors {
    let mut random = SplitMix::new(seed);
    let hidden = spec.hidden;
    let layers = spec.layers.iter().map(|layer| {
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        let FfnSpec::Gated(ffn) = &layer.ffn;
        let (query, kv) = (attention.query_width(), attention.kv_width());
        let mut linear = |rows, columns| {
            let weight = matrix(&mut random, rows, columns);
            BiasedWeight { weight, bias: None }
        };
        LayerTensors {
            attention_norm: vec![1.0; hidden],
            query: linear(query, hidden),
            key: linear(kv, hidden),
            value: linear(kv, hidden),
            query_norm: None,
            key_norm: None,
            output: linear(hidden, query),
            ffn_norm: vec![1.0; hidden],
            gate: linear(ffn.width, hidden),
            up: linear(ffn.width, hidden),
            down: linear(hidden, ffn.width),
        }
    });
    let layers = layers.collect();
    let embed = matrix(&mut random, spec.vocab, hidden);
    DecoderTensors { embed, layers, final_norm: vec![1.0; hidden], head: None, adapter: None }
}

fn matrix(random: &mut SplitMix, rows: usize, columns: usize) -> Matrix {
    // Of the size that keeps sums near one.
    let size = 2.0 / (columns as f32).sqrt();
    let numbers = random.numbers(rows * columns).into_iter().map(|number| number * size);
    let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
    let mut buffer = Buffer::zeroed(bytes.len(), "weights").expect("memory");
    buffer.bytes_mut().copy_from_slice(&bytes);
    Matrix::new(WeightFormat::F32, rows, columns, Arc::new(buffer))
}

/// The logits after each token.
pub fn logits(spec: &DecoderSpec, tensors: &DecoderTensors, text: &[u32]) -> Rows {
    let table = numbers(&tensors.embed);
    let mut stream: Rows = text.iter().map(|&id| table[id as usize].clone()).collect();
    for (layer, weights) in spec.layers.iter().zip(&tensors.layers) {
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        let FfnSpec::Gated(ffn) = &layer.ffn;
        let attended = attend(spec, attention, weights, &normed(spec, &stream));
        add(&mut stream, &project(&attended, &weights.output));
        let gated = feed_forward(ffn, weights, &normed(spec, &stream));
        add(&mut stream, &project(&gated, &weights.down));
    }
    let last = normed(spec, &stream);
    last.iter().map(|row| table.iter().map(|column| dot(row, column)).collect()).collect()
}

fn attend(
    spec: &DecoderSpec,
    attention: &GroupedQuerySpec,
    weights: &LayerTensors,
    x: &Rows,
) -> Rows {
    let GroupedQuerySpec { heads, kv_heads, head_dim, .. } = *attention;
    let rope = &spec.ropes[attention.rope];
    let rotated = |mut rows: Rows| {
        for (position, row) in rows.iter_mut().enumerate() {
            for head in row.chunks_exact_mut(head_dim) {
                rotate(head, &rope.inv_freq, position);
            }
        }
        rows
    };
    let query = rotated(project(x, &weights.query));
    let key = rotated(project(x, &weights.key));
    let value = project(x, &weights.value);
    let head_of = |row: &[f64], head: usize| row[head * head_dim..(head + 1) * head_dim].to_vec();
    let seen = |position: usize| {
        let first = attention.window.map_or(0, |window| (position + 1).saturating_sub(window));
        first..=position
    };
    let attended = (0..x.len()).map(|position| {
        let of_head = |head: usize| {
            let (q, shared) = (head_of(&query[position], head), head / (heads / kv_heads));
            let score = |at: usize| {
                (f64::from(attention.scale) * dot(&q, &head_of(&key[at], shared))).exp()
            };
            let scores: Vec<f64> = seen(position).map(score).collect();
            let sum: f64 = scores.iter().sum();
            let mut out = vec![0.0; head_dim];
            for (at, score) in seen(position).zip(&scores) {
                let value = head_of(&value[at], shared);
                out.iter_mut().zip(value).for_each(|(out, value)| *out += score / sum * value);
            }
            out
        };
        (0..heads).flat_map(of_head).collect()
    });
    attended.collect()
}

/// Pairs are half of the rotated elements apart.
fn rotate(head: &mut [f64], inv_freq: &[f32], position: usize) {
    let half = inv_freq.len();
    for (pair, freq) in inv_freq.iter().enumerate() {
        let (sin, cos) = (position as f64 * f64::from(*freq)).sin_cos();
        let (a, b) = (head[pair], head[pair + half]);
        (head[pair], head[pair + half]) = (a * cos - b * sin, b * cos + a * sin);
    }
}

fn feed_forward(ffn: &GatedSpec, weights: &LayerTensors, x: &Rows) -> Rows {
    assert_eq!(ffn.activation, terrace_kernels::Activation::Silu, "the one that is written here");
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let (gate, up) = (project(x, &weights.gate), project(x, &weights.up));
    let gated = |(gate, up): (&Vec<f64>, &Vec<f64>)| {
        gate.iter().zip(up).map(|(gate, up)| silu(*gate) * up).collect()
    };
    gate.iter().zip(&up).map(gated).collect()
}

fn normed(spec: &DecoderSpec, rows: &Rows) -> Rows {
    let normed = |row: &Vec<f64>| {
        let mean = dot(row, row) / row.len() as f64;
        row.iter().map(|x| x / (mean + f64::from(spec.norm_eps)).sqrt()).collect()
    };
    rows.iter().map(normed).collect()
}

fn project(rows: &Rows, linear: &BiasedWeight) -> Rows {
    let weights = numbers(&linear.weight);
    rows.iter().map(|row| weights.iter().map(|weight| dot(row, weight)).collect()).collect()
}

fn add(stream: &mut Rows, delta: &Rows) {
    for (row, delta) in stream.iter_mut().zip(delta) {
        row.iter_mut().zip(delta).for_each(|(x, delta)| *x += delta);
    }
}

fn numbers(matrix: &Matrix) -> Rows {
    let numbers = matrix.bytes().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    let numbers: Vec<f64> = numbers.map(f64::from).collect();
    numbers.chunks(matrix.columns()).map(<[f64]>::to_vec).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
