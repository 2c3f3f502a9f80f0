//! How fast the two ops that matter run here: products and attention.
//!
//! `cargo run --release -p terrace-kernels --example kernel_speed -- [threads]`

use std::sync::Arc;
use std::time::Instant;

use terrace_device::{Buffer, DType, Device, View, Workspace};
use terrace_kernels::{
    AttentionArgs, CpuLevel, CpuOps, CpuOptions, Matrix, PageLayout, PagedKv, Projection,
    WeightFormat,
};

fn main() {
    let threads = std::env::args().nth(1).map_or(2, |arg| arg.parse().expect("threads"));
    for level in CpuLevel::available().into_iter().filter(|&level| level != CpuLevel::Reference) {
        let ops =
            CpuOps::new(CpuOptions { threads, level: Some(level) }).expect("level is available");
        println!("{} with {threads} threads", level.name());
        for format in
            [WeightFormat::Q4_1, WeightFormat::Q8_0, WeightFormat::Bf16, WeightFormat::F32]
        {
            for tokens in [1, 8, 64, 512] {
                products(&ops, format, tokens);
            }
        }
        for dtype in [DType::F16, DType::F32] {
            for [past, live] in [[2047, 1], [0, 512]] {
                attention(&ops, dtype, past, live);
            }
        }
    }
}

/// Products with enough matrices of one feed-forward layer that they do not all stay in the
/// second-level cache. The best call counts, as the machine may have other work.
fn products(ops: &CpuOps, format: WeightFormat, tokens: usize) {
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
    let workspace = Workspace::new(&Device::Cpu, 8 * tokens * (COLUMNS + ROWS)).expect("memory");
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
        "  project {:5} {tokens:4} tokens: {time:9.1?} {:7.1} GFLOP/s {:6.2} Gw/s {:6.2} GB/s",
        format.name(),
        2e-9 * (tokens * ROWS * COLUMNS) as f64 / seconds,
        1e-9 * (ROWS * COLUMNS) as f64 / seconds,
        1e-9 * bytes as f64 / seconds,
    );
}

/// One sequence of a model with 9 heads of 64 over 3 kv heads.
fn attention(ops: &CpuOps, dtype: DType, past: usize, live: usize) {
    const LAYERS: usize = 30;
    const REPEATS: usize = 10;
    let (heads, kv_heads, head_dim, page_tokens) = (9, 3, 64, 16);
    let layout = PageLayout {
        layers: LAYERS,
        kv_heads,
        page_tokens,
        key_dim: head_dim,
        value_dim: head_dim,
        dtype,
    };
    let pages = (past + live).div_ceil(page_tokens);
    let mut buffer = Buffer::zeroed(pages * layout.page_bytes(), "pages").expect("memory");
    let table: Vec<i32> = (0..pages as i32).collect();
    let slots: Vec<i32> = (past as i32..(past + live) as i32).collect();
    let (past_tokens, live_starts) = ([past as i32], [0, live as i32]);
    let kv = PagedKv {
        layout,
        pages: buffer.view_mut(DType::U8, [pages, layout.page_bytes()]),
        block_tables: View::of(&table, [1, pages]),
        past_tokens: View::of(&past_tokens, [1]),
        live_starts: View::of(&live_starts, [2]),
        commit_slots: View::of(&slots, [live]),
        singles: 0,
        chunk_tiles: View::of::<i32>(&[], [0, 2]),
        row_seqs: View::of::<i32>(&[], [0]),
    };
    let workspace = Workspace::new(&Device::Cpu, 32 * live * heads * head_dim).expect("memory");
    let q = workspace.take(DType::F32, [live, heads, head_dim]).into_view();
    let live_k = workspace.take(dtype, [live, kv_heads, head_dim]).into_view();
    let live_v = workspace.take(dtype, [live, kv_heads, head_dim]).into_view();
    let mut out = workspace.take(DType::F32, [live, heads, head_dim]);
    let time = (0..REPEATS * LAYERS)
        .map(|i| {
            let args = AttentionArgs {
                q,
                live_k,
                live_v,
                kv: &kv,
                layer: i % LAYERS,
                scale: 0.125,
                window: None,
                out: out.reborrow(),
            };
            let start = Instant::now();
            ops.paged_attention(args);
            start.elapsed()
        })
        .min()
        .expect("at least one time");
    let seen: usize = (past + 1..=past + live).sum();
    let seconds = time.as_secs_f64();
    println!(
        "  attention {:4} past {past} live {live}: {time:9.1?} {:6.1} GFLOP/s {:6.2} GB/s of pages",
        dtype.name(),
        1e-9 * (4 * seen * heads * head_dim) as f64 / seconds,
        1e-9 * (2 * past * kv_heads * head_dim * dtype.bytes()) as f64 / seconds,
    );
}
