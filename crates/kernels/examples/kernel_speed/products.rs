//! Products with enough matrices of one feed-forward layer that they do not all stay in the
//! second-level cache. The best round over all of them counts, as the machine may have other work.

use std::time::Instant;

use terrace_device::{DType, Device, Workspace};
use terrace_kernels::{Linear, LinearShape, Ops, RowKinds, WeightFormat};

const ROWS: usize = 1536;
const COLUMNS: usize = 576;
const MATRICES: usize = 60;
const REPEATS: usize = 8;

pub fn measure(ops: &Ops, format: WeightFormat, wanted_tokens: Option<usize>) {
    for (tokens, origin) in [(1, "new"), (8, "new"), (32, "new"), (32, "prompt"), (512, "prompt")] {
        if wanted_tokens.is_none_or(|wanted| wanted == tokens) {
            products(ops, format, tokens, origin);
        }
    }
}

fn products(ops: &Ops, format: WeightFormat, tokens: usize, origin: &str) {
    let bytes = ROWS * format.row_bytes(COLUMNS).expect("whole blocks");
    let shape = LinearShape { rows: ROWS, columns: COLUMNS, gated: false, table: None };
    let matrices: Vec<Linear> =
        (0..MATRICES).map(|i| ops.random(shape, format, i as u64).expect("memory")).collect();
    let workspace = Workspace::new(&Device::Cpu, 8 * tokens * (COLUMNS + ROWS)).expect("memory");
    let x = workspace.take(DType::F32, [tokens, COLUMNS]).into_view();
    let mut out = workspace.take(DType::F32, [tokens, ROWS]);
    let rows: Vec<u32> = (0..tokens as u32).collect();
    let row_kinds = match origin {
        "prompt" => RowKinds::Listed { prompt: &rows, generated: &[] },
        _ => RowKinds::Listed { prompt: &[], generated: &rows },
    };
    let rounds = (0..REPEATS).map(|_| {
        let start = Instant::now();
        for weights in &matrices {
            ops.project(x, row_kinds, weights, out.reborrow());
        }
        start.elapsed() / MATRICES as u32
    });
    let time = rounds.min().expect("at least one round");
    let seconds = time.as_secs_f64();
    println!(
        "  project {:5} {tokens:4} {origin:6}: {time:9.1?} {:7.1} GFLOP/s {:6.2} GB/s",
        format.name(),
        2e-9 * (tokens * ROWS * COLUMNS) as f64 / seconds,
        1e-9 * bytes as f64 / seconds,
    );
}
