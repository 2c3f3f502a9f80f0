//! Attention over pages and over slots, with and without weights: one layer each, taken in turns,
//! so that all of them meet the same moods of the machine. The best time and the median count.

use std::time::{Duration, Instant};

use terrace_device::DType;
use terrace_kernels::{CpuOps, Ops, Quantiser, RowFormat, RowKinds};

use crate::pages::Pages;
use crate::slots::{Slots, Weights};

/// Heads, kv heads and numbers of a head.
pub struct Heads {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
}

/// Sequences, the keys that each has in the end, and the live rows among them.
#[derive(Clone, Copy)]
pub struct Step {
    pub seqs: usize,
    pub keys: usize,
    pub live: usize,
}

impl Step {
    /// Where its rows come from, all of which are `rows`.
    pub fn row_kinds<'a>(&self, rows: &'a [u32]) -> RowKinds<'a> {
        match self.live {
            1 => RowKinds::Generated,
            _ => RowKinds::Listed { prompt: rows, generated: &[] },
        }
    }
}

/// Pages of as many tokens as the engine's.
pub const PAGE_TOKENS: usize = 16;

const REPEATS: usize = 15;

/// SmolLM2-135M, and the shape of most models of 8 billion weights.
const SHAPES: [Heads; 2] = [
    Heads { heads: 9, kv_heads: 3, head_dim: 64 },
    Heads { heads: 32, kv_heads: 8, head_dim: 128 },
];

const STEPS: [Step; 4] = [
    Step { seqs: 8, keys: 192, live: 1 },
    Step { seqs: 1, keys: 4096, live: 1 },
    Step { seqs: 8, keys: 4096, live: 1 },
    Step { seqs: 1, keys: 2048, live: 1024 },
];

/// One layer's attention, and how many bytes of keys and values it reads at least.
pub struct Measured<'a> {
    pub name: String,
    pub bytes: usize,
    pub run: Box<dyn FnMut() + 'a>,
}

/// Those whose name has `wanted` in it.
pub fn measure(ops: &Ops, cpu: &CpuOps, wanted: &str) {
    for heads in &SHAPES {
        for step in STEPS {
            println!(
                "  {}/{} heads of {}, {} x {} keys, {} live rows each",
                heads.heads, heads.kv_heads, heads.head_dim, step.seqs, step.keys, step.live
            );
            measure_step(ops, cpu, heads, step, wanted);
        }
    }
}

fn measure_step(ops: &Ops, cpu: &CpuOps, heads: &Heads, step: Step, wanted: &str) {
    let mut dense = [DType::F16, DType::F32].map(|dtype| Pages::new(heads, step, dtype));
    let quantised = [Quantiser::Asymmetric8, Quantiser::Asymmetric4, Quantiser::Fp8];
    let formats = [RowFormat::F16, RowFormat::F32].into_iter();
    let formats = formats.chain(quantised.map(RowFormat::Quantised));
    let mut slots: Vec<Slots> = formats
        .flat_map(|format| [(format, Weights::Unused), (format, Weights::Added)])
        .map(|(format, weights)| Slots::new(ops, heads, step, format, weights))
        .collect();
    let dense = dense.iter_mut().map(|pages| pages.measured(cpu));
    let mut all: Vec<Measured<'_>> =
        dense.chain(slots.iter_mut().map(|slots| slots.measured(ops))).collect();
    all.retain(|measured| measured.name.contains(wanted));
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); all.len()];
    for _ in 0..REPEATS {
        for (measured, times) in all.iter_mut().zip(&mut times) {
            let start = Instant::now();
            (measured.run)();
            times.push(start.elapsed());
        }
    }
    let seen: usize = (step.keys - step.live + 1..=step.keys).sum();
    let flops = 4 * step.seqs * seen * heads.heads * heads.head_dim;
    for (measured, times) in all.iter().zip(&mut times) {
        times.sort();
        let best = times[0].as_secs_f64();
        println!(
            "    {:32} {:9.1?}, median {:9.1?} {:6.1} GFLOP/s {:6.2} GB/s",
            measured.name,
            times[0],
            times[times.len() / 2],
            1e-9 * flops as f64 / best,
            1e-9 * measured.bytes as f64 / best,
        );
    }
}

/// Numbers of about one, in any of the plain types.
pub fn fill(bytes: &mut [u8], dtype: DType) {
    for (i, number) in bytes.chunks_exact_mut(dtype.bytes()).enumerate() {
        let size = (i % 61) as f32 / 61.0 - 0.5;
        match dtype {
            DType::F32 => number.copy_from_slice(&size.to_le_bytes()),
            _ => number.copy_from_slice(&half::f16::from_f32(size).to_le_bytes()),
        }
    }
}
