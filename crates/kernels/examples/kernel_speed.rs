//! How fast the two ops that matter run here: products and attention.
//!
//! `cargo run --release -p terrace-kernels --example kernel_speed -- [threads]`

use std::sync::Arc;
use std::time::Instant;

use terrace_device::{Buffer, DType, Workspace};
use terrace_kernels::{CpuLevel, CpuOptions, Matrix, Ops, Projection, WeightFormat};

fn main() {
    let threads = std::env::args().nth(1).map_or(2, |arg| arg.parse().expect("threads"));
    for level in CpuLevel::available() {
        let ops = Ops::cpu(CpuOptions { threads, level: Some(level) }).expect("level is available");
        println!("{} with {threads} threads", level.name());
        for format in
            [WeightFormat::Q4_1, WeightFormat::Q8_0, WeightFormat::Bf16, WeightFormat::F32]
        {
            for tokens in [1, 8, 64, 512] {
                if level == CpuLevel::Reference && 8 < tokens {
                    continue;
                }
                products(&ops, format, tokens);
            }
        }
    }
}

/// Products with enough matrices of one feed-forward layer that they do not all stay in cache.
fn products(ops: &Ops, format: WeightFormat, tokens: usize) {
    const ROWS: usize = 1536;
    const COLUMNS: usize = 576;
    const MATRICES: usize = 60;
    const REPEATS: usize = 5;
    let bytes = ROWS * format.row_bytes(COLUMNS).expect("whole blocks");
    let matrices: Vec<Matrix> = (0..MATRICES)
        .map(|_| {
            let mut buffer = Buffer::zeroed(bytes, "weights").expect("memory");
            buffer.bytes_mut().fill(1);
            Matrix::new(format, ROWS, COLUMNS, Arc::new(buffer))
        })
        .collect();
    let workspace = Workspace::new(8 * tokens * (COLUMNS + ROWS)).expect("memory");
    let x = workspace.take(DType::F32, [tokens, COLUMNS]).into_view();
    let mut out = workspace.take(DType::F32, [tokens, ROWS]);
    let mut times = matrices.iter().cycle().take(REPEATS * MATRICES).map(|weight| {
        let out = out.reborrow();
        let start = Instant::now();
        ops.project(x, &mut [Projection { weight, bias: None, out }]);
        start.elapsed()
    });
    let time = times.by_ref().skip(MATRICES).min().expect("at least two rounds");
    let seconds = time.as_secs_f64();
    println!(
        "  project {ROWS}x{COLUMNS} {:5} {tokens:4} tokens: {time:9.1?} {:7.1} GFLOP/s {:6.2} Gweights/s {:6.2} GB/s",
        format.name(),
        2e-9 * (tokens * ROWS * COLUMNS) as f64 / seconds,
        1e-9 * (ROWS * COLUMNS) as f64 / seconds,
        1e-9 * bytes as f64 / seconds,
    );
}
