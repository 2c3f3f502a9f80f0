//! How fast the two ops that matter run here: products and attention.
//!
//! `cargo run --release -p terrace-kernels --example kernel_speed -- [threads] [level] [format]
//! [tokens]`

use std::time::Instant;

use terrace_device::{Buffer, DType, Device, View, Workspace};
use terrace_kernels::{
    AttentionArgs, Compute, CpuLevel, CpuOps, CpuOptions, Linear, LinearShape, Ops, PageLayout,
    PagedKv, RowOrigins, WeightFormat,
};

fn main() {
    let threads = std::env::args().nth(1).map_or(2, |arg| arg.parse().expect("threads"));
    let wanted = std::env::args().nth(2);
    let wanted_format = std::env::args().nth(3);
    let wanted_tokens = std::env::args().nth(4).map(|arg| arg.parse::<usize>().expect("tokens"));
    for level in CpuLevel::available().into_iter().filter(|&level| level != CpuLevel::Reference) {
        if wanted.as_ref().is_some_and(|wanted| wanted != level.name()) {
            continue;
        }
        for compute in [Compute::Fast, Compute::F32] {
            let options = CpuOptions { threads, level: Some(level), compute };
            let ops = Ops::cpu(options).expect("level is available");
            println!("{} with {threads} threads, {compute:?}", level.name());
            for format in [WeightFormat::Q4_1, WeightFormat::Q8_0, WeightFormat::Bf16] {
                if wanted_format.as_ref().is_some_and(|wanted| wanted != format.name()) {
                    continue;
                }
                for (tokens, origin) in
                    [(1, "new"), (8, "new"), (32, "new"), (32, "prompt"), (512, "prompt")]
                {
                    if wanted_tokens.is_none_or(|wanted| wanted == tokens) {
                        products(&ops, format, tokens, origin);
                    }
                }
            }
        }
        let compute = Compute::Fast;
        let ops =
            CpuOps::new(CpuOptions { threads, level: Some(level), compute }).expect("as above");
        for dtype in [DType::F16, DType::F32] {
            for [past, live] in [[2047, 1], [0, 512]] {
                attention(&ops, dtype, past, live);
            }
        }
    }
}

/// Products with enough matrices of one feed-forward layer that they do not all stay in the
/// second-level cache. The best round over all of them counts, as the machine may have other work.
fn products(ops: &Ops, format: WeightFormat, tokens: usize, origin: &str) {
    const ROWS: usize = 1536;
    const COLUMNS: usize = 576;
    const MATRICES: usize = 60;
    const REPEATS: usize = 8;
    let bytes = ROWS * format.row_bytes(COLUMNS).expect("whole blocks");
    let shape = LinearShape { rows: ROWS, columns: COLUMNS, gated: false, table: None };
    let matrices: Vec<Linear> =
        (0..MATRICES).map(|i| ops.random(shape, format, i as u64).expect("memory")).collect();
    let workspace = Workspace::new(&Device::Cpu, 8 * tokens * (COLUMNS + ROWS)).expect("memory");
    let x = workspace.take(DType::F32, [tokens, COLUMNS]).into_view();
    let mut out = workspace.take(DType::F32, [tokens, ROWS]);
    let rows: Vec<u32> = (0..tokens as u32).collect();
    let origins = match origin {
        "prompt" => RowOrigins::Listed { prompt: &rows, generated: &[] },
        _ => RowOrigins::Listed { prompt: &[], generated: &rows },
    };
    let rounds = (0..REPEATS).map(|_| {
        let start = Instant::now();
        for weights in &matrices {
            ops.project(x, origins, weights, out.reborrow());
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
    let rows: Vec<u32> = (0..live as u32).collect();
    let origins = match live {
        1 => RowOrigins::Generated,
        _ => RowOrigins::Listed { prompt: &rows, generated: &[] },
    };
    let time = (0..REPEATS * LAYERS)
        .map(|i| {
            let args = AttentionArgs {
                q,
                origins,
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
