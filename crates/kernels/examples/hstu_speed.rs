//! How fast the ops of HSTU models run on a GPU.
//!
//! `cargo run --release -p terrace-kernels --example hstu_speed`: bf16 activations on the first
//! GPU. Each line is a mean over launches one after the other, after some that are not counted.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, probe};
use terrace_device::{Buffer, DType, Device, View, ViewMut};
use terrace_kernels::{
    AttendedRows, CudaOptions, GatedForm, GatedNormArgs, HSTU_TILE_ROWS, HstuAttendArgs, HstuKv,
    HstuRowTile, HstuStepSize, HstuTileViews, HstuTiles, HstuTiling, NormExtent, Ops, PageLayout,
    Pointwise, RowScale, live_slot,
};

/// What a step computes of each sequence.
#[derive(Clone, Copy, Debug)]
struct Step {
    seqs: usize,
    past: usize,
    new: usize,
    candidates: usize,
}

const WARM_UP: usize = 5;
const LAUNCHES: usize = 30;
const HEADS: usize = 4;

fn main() {
    let gpus = probe().expect("a GPU");
    let device = CudaDevice::open(&gpus[0]).expect("a GPU that opens");
    println!("{}", device.info().name);
    for deterministic in [false, true] {
        let ops = Ops::cuda(CudaOptions {
            device: Arc::clone(&device),
            activation: DType::Bf16,
            libs: Vec::new(),
            threads: 2,
            deterministic,
            portable_chunks: false,
            layouts: Vec::new(),
        });
        let ops = ops.expect("kernels that load");
        println!("deterministic: {deterministic}");
        let whole = Step { seqs: 16, past: 0, new: 4096, candidates: 0 };
        let cached = Step { seqs: 8, past: 3968, new: 128, candidates: 256 };
        let alone = Step { seqs: 1, ..cached };
        for dtype in [DType::Bf16, DType::F8E4m3] {
            for head_dim in [64, 128, 256] {
                for step in [whole, cached, alone] {
                    attend(&ops, &device, step, head_dim, dtype);
                }
            }
        }
        if !deterministic {
            rows(&ops, &device);
        }
    }
}

/// The mean time of a launch, in seconds.
fn time(device: &Arc<CudaDevice>, mut launch: impl FnMut()) -> f64 {
    (0..WARM_UP).for_each(|_| launch());
    let [start, end] = [(); 2].map(|()| device.event().expect("an event"));
    start.record();
    (0..LAUNCHES).for_each(|_| launch());
    end.record();
    end.wait().expect("the device works");
    f64::from(end.ms_since(&start).expect("two events")) * 1e-3 / LAUNCHES as f64
}

/// Memory with numbers of about one.
fn filled(device: &Arc<CudaDevice>, dtype: DType, count: usize) -> Buffer {
    let home = Device::Cuda(Arc::clone(device));
    let mut buffer = home.take(count * dtype.bytes(), "numbers").expect("memory");
    let number = |i: usize| (i * 7919 % 251) as f32 / 125.0 - 1.0;
    let bytes: Vec<u8> = match dtype {
        DType::F32 => (0..count).flat_map(|i| number(i).to_le_bytes()).collect(),
        _ => (0..count).flat_map(|i| half::bf16::from_f32(number(i)).to_le_bytes()).collect(),
    };
    device.write(&buffer.view_mut(dtype, [count]), &bytes).expect("the device works");
    buffer
}

fn placed(device: &Arc<CudaDevice>, values: &[i32]) -> Buffer {
    let home = Device::Cuda(Arc::clone(device));
    let mut buffer = home.take(values.len() * 4, "arrays").expect("memory");
    let bytes: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
    device.write(&buffer.view_mut(DType::I32, [values.len()]), &bytes).expect("the device works");
    buffer
}

fn attend(ops: &Ops, device: &Arc<CudaDevice>, step: Step, head_dim: usize, dtype: DType) {
    let Step { seqs, past, new, candidates } = step;
    let (page_tokens, live, home) = (64, new + candidates, Device::Cuda(Arc::clone(device)));
    let layout = PageLayout {
        layers: 1,
        kv_heads: HEADS,
        page_tokens,
        key_dim: head_dim,
        value_dim: head_dim,
        dtype,
    };
    let (tokens, width, table_pages) =
        (seqs * live, HEADS * head_dim, (past + new).div_ceil(page_tokens));
    let live_pages = candidates.div_ceil(page_tokens).max(1);
    let size = HstuStepSize { tokens, seqs, table_pages };
    let mut uvqk = filled(device, DType::Bf16, tokens * 4 * width);
    let page_bytes = layout.page_bytes();
    let mut pages = home.take(seqs * table_pages * page_bytes, "pages").expect("memory");
    let mut out = home.take(tokens * width * 2, "results").expect("memory");
    let (bytes, tiling) = (ops.hstu_scratch_bytes(&layout, size), ops.hstu_tiling(&layout));
    let mut scratch = home.take(bytes, "scratch").expect("memory");
    let arrays = arrays(device, step, page_tokens, table_pages, live_pages, tiling);
    let [tables, past_tokens, starts, history, slots, spans, live_tables, row_seqs, items, sums] =
        &arrays;
    let rows = |buffer: &Buffer, words: usize| [buffer.len() / (4 * words), words];
    let tiles = HstuTileViews {
        items: items.view(DType::I32, rows(items, HstuTiles::ITEM_WORDS)),
        sums: sums.view(DType::I32, rows(sums, HstuTiles::SUM_WORDS)),
    };
    let seconds = time(device, || {
        let matrix = uvqk.view_mut(DType::Bf16, [tokens, 4 * width]);
        let [_, v, q, k] = matrix.split_columns([width; 4]);
        let args = HstuAttendArgs {
            q,
            k,
            v,
            activates: true,
            layer: 0,
            scale: 1.0 / (head_dim as f32).sqrt(),
            bias: None,
            row_scale: RowScale::DivideBy(4096.0),
            rows: AttendedRows::All,
            scratch: scratch.view_mut(DType::U8, [bytes]),
            out: out.view_mut(DType::Bf16, [tokens, width]),
        };
        let mut kv = HstuKv {
            layout,
            pages: pages.view_mut(DType::U8, [seqs * table_pages, page_bytes]),
            block_tables: tables.view(DType::I32, [seqs, table_pages]),
            past_tokens: past_tokens.view(DType::I32, [seqs]),
            live_starts: starts.view(DType::I32, [seqs + 1]),
            history_rows: history.view(DType::I32, [seqs]),
            commit_slots: slots.view(DType::I32, [tokens]),
            spans: spans.view(DType::I32, [tokens, 4]),
            live_tables: live_tables.view(DType::I32, [seqs, live_pages]),
            row_seqs: row_seqs.view(DType::I32, [tokens]),
            tiles,
            candidate_tiles: tiles,
        };
        ops.hstu_attend(args, &mut kv);
    });
    let seen: usize = (past + 1..=past + new).sum::<usize>() + candidates * (past + new + 1);
    let flops = 4.0 * (seqs * seen * width) as f64;
    println!(
        "attend {:6} {head_dim:3} {step:?}: {:8.1} us, {:6.1} TFLOP/s",
        dtype.name(),
        seconds * 1e6,
        flops / seconds * 1e-12
    );
}

/// Causal rows, and candidates that see all of the history and themselves.
fn arrays(
    device: &Arc<CudaDevice>,
    step: Step,
    page_tokens: usize,
    table_pages: usize,
    live_pages: usize,
    tiling: HstuTiling,
) -> [Buffer; 10] {
    let Step { seqs, past, new, candidates } = step;
    let (live, history) = (new + candidates, past + new);
    let per_seq = |value: usize| vec![value as i32; seqs];
    let (mut slots, mut spans, mut row_seqs, mut tiles) = (vec![], vec![], vec![], vec![]);
    for seq in 0..seqs {
        for position in past..history {
            slots.push((seq * table_pages * page_tokens + position) as i32);
            spans.push([0, position as i32 + 1, 0, 0]);
        }
        for i in 0..candidates {
            slots.push(live_slot(seq * live_pages * page_tokens + i));
            spans.push([0, history as i32, i as i32, i as i32 + 1]);
        }
        row_seqs.extend(vec![seq as i32; live]);
        for first in (0..live).step_by(HSTU_TILE_ROWS) {
            let rows = HSTU_TILE_ROWS.min(live - first);
            let seen = &spans[seq * live + first..][..rows];
            let most = |at: usize| seen.iter().map(|span| span[at]).max().unwrap_or(0) as usize;
            let candidate = seen.iter().filter(|span| span[2] < span[3]).map(|span| span[2]).min();
            let (row, candidate) = (seq * live + first, candidate.unwrap_or(0) as usize);
            tiles.push(HstuRowTile {
                seq,
                rows: row..row + rows,
                history: 0..most(1),
                candidates: candidate..most(3),
            });
        }
    }
    tiles.sort_by_key(|tile| (tile.seq / 4, std::cmp::Reverse(tile.history.end)));
    let HstuTiles { items, sums } = HstuTiles::new(&tiles, tiling);
    let counted = |count: usize| (0..count as i32).collect::<Vec<i32>>();
    let starts: Vec<i32> = (0..=seqs).map(|seq| (seq * live) as i32).collect();
    [
        counted(seqs * table_pages),
        per_seq(past),
        starts,
        per_seq(new),
        slots,
        spans.concat(),
        counted(seqs * live_pages),
        row_seqs,
        items,
        sums,
    ]
    .map(|values| placed(device, &values))
}

/// Ops that read and write rows, at the memory's speed at best.
fn rows(ops: &Ops, device: &Arc<CudaDevice>) {
    let (tokens, dim) = (32 * 1024, 1024);
    let mut stream = filled(device, DType::F32, tokens * dim);
    let delta = filled(device, DType::Bf16, tokens * dim);
    let mut act = filled(device, DType::Bf16, tokens * dim);
    let uvqk = filled(device, DType::Bf16, tokens * 4 * dim);
    let mut wide = filled(device, DType::Bf16, tokens * dim);
    let shape = [tokens, dim];
    let print = |name: &str, bytes: usize, seconds: f64| {
        let rate = (tokens * dim * bytes) as f64 / seconds * 1e-12;
        println!("{name:16} {tokens}x{dim}: {:7.1} us, {rate:.2} TB/s", seconds * 1e6);
    };
    let seconds = time(device, || {
        let x = stream.view(DType::F32, shape);
        ops.layer_norm(x, None, 1e-5, act.view_mut(DType::Bf16, shape));
    });
    print("layer_norm", 6, seconds);
    let delta: View<'_> = delta.view(DType::Bf16, shape);
    let seconds = time(device, || {
        let (sum, out): (ViewMut<'_>, _) =
            (stream.view_mut(DType::F32, shape), act.view_mut(DType::Bf16, shape));
        ops.add_layer_norm(sum, delta, None, 1e-5, out);
    });
    print("add_layer_norm", 12, seconds);
    let seconds = time(device, || ops.add_rows(stream.view_mut(DType::F32, shape), None, delta));
    print("add_rows", 10, seconds);
    let seconds = time(device, || ops.activate(act.view_mut(DType::Bf16, shape), Pointwise::Silu));
    print("activate", 4, seconds);
    let args = GatedNormArgs {
        attention: act.view(DType::Bf16, shape),
        u: uvqk.view(DType::Bf16, [tokens, 4 * dim]).columns(0, dim),
        rows: None,
        activates: true,
        affine: None,
        eps: 1e-5,
        form: GatedForm::Gated,
        extent: NormExtent::AllHeads,
    };
    let seconds = time(device, || ops.gated_norm(&args, wide.view_mut(DType::Bf16, shape)));
    print("gated_norm", 6, seconds);
}
