// ptx: bf16_64 -DPAGE=bf16 -DHEAD_DIM=64
// ptx: bf16_128 -DPAGE=bf16 -DHEAD_DIM=128
// ptx: f16_64 -DPAGE=f16 -DHEAD_DIM=64
// ptx: f16_128 -DPAGE=f16 -DHEAD_DIM=128
// ptx: e4m3_64 -DPAGE=e4m3 -DHEAD_DIM=64
// ptx: e4m3_128 -DPAGE=e4m3 -DHEAD_DIM=128
// ptx: e5m2_64 -DPAGE=e5m2 -DHEAD_DIM=64
// ptx: e5m2_128 -DPAGE=e5m2 -DHEAD_DIM=128
//
// Attention of single query rows: one row of each sequence (a decode step), or a list of rows.
//
// See split_kv.cuh, which has what it shares with slot_decode.cu. They are two kernels because
// pages in order need no positions beside their keys: reading them would cost 4 bytes a key and
// head.
//
// Which keys a warp sums in which order follows from their positions and from `split_keys` (or the
// number of splits) alone. With `split_keys` a row's result is the same in every batch.
//
// Roofline: bound by memory. Each key and value is read once for the group of heads.

#include "pages.cuh"

#include "dense_step.cuh"

#include "row_products.cuh"

#include "softmax_stats.cuh"

typedef PAGE Page;

#include "split_kv.cuh"

/// Bytes of a tile's keys and values with their scales.
static const int STAGE = 2 * SIDE + (SCALED ? 2 * TILE * 4 : 0);
/// Tiles of a warp in shared memory. Two blocks fit on a multiprocessor, four or more where rows
/// are shorter: three times the bytes in flight that saturate the memory of an H200.
static const int STAGES = 3;

struct DecodeParams : DenseStep {
    /// See split_kv.cuh.
    float *partials;
    i32 *arrivals;
    i32 first_row, split_keys;
};

/// What a block does. Keys `first..end` are those its row sees in this split.
struct Work {
    BlockHeads block;
    /// Sequence of the row, and its tokens that earlier steps wrote.
    i32 seq, past;
    i32 first, end;
    /// Splits of this row that hold keys; 0 where there is no row.
    i32 splits;
};

// May run before `wait_for_inputs`: the kernel before this one (rope_commit) lets it start only
// when all that came before itself has ended, and writes none of what is read here.
DEVICE Work work_of(const DecodeParams &p) {
    Work work;
    work.block = heads_of_block(p.first_row, p.group);
    const RowLocation location =
        locate_row(work.block.row, p.row_seqs, p.live_starts, p.past_tokens);
    work.seq = location.seq;
    work.past = location.past;
    const i32 keys = location.position + 1;
    const i32 visible = p.window > 0 ? max(0, keys - p.window) : 0;
    i32 split = p.split_keys;
    if (split == 0) {
        const i32 all = keys - visible / ROUND * ROUND;
        const i32 rounds = (all + ROUND - 1) / ROUND;
        // A warp with less than two tiles is slower than another split to add up.
        split = max(2, (rounds + (i32)gridDim.y - 1) / (i32)gridDim.y) * ROUND;
    }
    const i32 origin = p.split_keys ? visible / split * split : visible / ROUND * ROUND;
    const i32 start = origin + blockIdx.y * split;
    work.splits = (keys - origin + split - 1) / split;
    work.first = max(visible, start);
    work.end = min(keys, start + split);
    return work;
}

// ---- Loading a tile.

/// Page of key `position`, or -1 where the row sees no such key.
DEVICE i32 page_of(const DecodeParams &p, const Work &work, i32 position) {
    if (position < work.first || work.end <= position) return -1;
    const u32 logical = (u32)position / (u32)p.layer.page_tokens;
    return p.block_tables[(u64)work.seq * p.table_stride + logical];
}

/// Copies the tile of keys from `start` on; `page` is that of key `start + lane % 16`.
DEVICE void load_tile(const DecodeParams &p, const Work &work, u32 stage, i32 start, i32 page,
                      int lane) {
    const i32 offset = (u32)(start + lane % TILE) % (u32)p.layer.page_tokens;
    const u32 row = row_in_page(p.layer, work.block.kv_head, offset);
    const u64 page_at = page_start(p.layer, page);
    const u64 row_at = page < 0 ? NO_ROW : page_at + (u64)row * ROW;
    const u8 *keys = p.layer.pages + p.layer.key_offset;
    const u8 *values = p.layer.pages + p.layer.value_offset;
    load_rows(stage, keys, values, row_at, lane, copy_async16);
    if (SCALED) {
        const u8 *side = lane < TILE ? keys : values;
        const u64 at = page < 0 ? 0 : page_at + scales_offset(p.layer, ROW) + row * 4;
        copy_async_small<4>(stage + 2 * SIDE + lane * 4, side + at, 0 <= page);
    }
}

/// Registers of the right side: heads are columns. Over fp8 pages a lane has four neighbouring
/// numbers of each step, as it has of a key.
DEVICE void load_queries(const DecodeParams &p, const Work &work, u32 q[STEPS][2], int lane) {
    const int head = lane / 4, t = lane % 4;
    const u64 row = (u64)work.block.row * p.layer.kv_heads * p.group;
    const u32 *from = (const u32 *)((const Query *)p.q + (row + work.block.head + head) * HEAD_DIM);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const bool is_there = head < work.block.heads;
        q[step][0] = is_there ? from[step * 8 + (SCALED ? 2 * t : t)] : 0;
        q[step][1] = is_there ? from[step * 8 + (SCALED ? 2 * t + 1 : t + 4)] : 0;
    }
}

// ---- One tile.

DEVICE void attend(State &state, u32 stage, const float *scales, const u32 q[STEPS][2],
                   const Work &work, i32 start, float scale, int lane) {
    const int g = lane / 4;
    float s[4] = {}, shrink[2];
    multiply_keys<Page, STEPS>(
        s, q, [&](int vector) { return stage + swizzled(lane % 16, vector + lane / 16); });
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const i32 position = start + g + i / 2 * 8;
        const bool is_visible = work.first <= position && position < work.end;
        const float factor = SCALED ? scales[g + i / 2 * 8] * scale : scale;
        s[i] = is_visible ? s[i] * factor : MINUS_INFINITY;
    }
    weigh(state.softmax, s, shrink);
    if (SCALED) scale_weights(state, s, shrink, scales[TILE + g], scales[TILE + g + 8]);
    const u32 packed[2] = {pack<Query>(s[0], s[1]), pack<Query>(s[2], s[3])};
    add_values(state, shrink, packed, stage + SIDE, lane);
}

static_assert(WarpSums::BYTES <= WARPS * STAGES * STAGE, "sums fit into the tiles");

KERNEL __launch_bounds__(WARPS * 32) decode_attention(const __grid_constant__ DecodeParams p) {
    extern __shared__ __align__(128) u8 shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Work work = work_of(p);
    if (has_no_keys(p, work, warp, lane)) return;
    const i32 start = first_tile_of(work.first, warp), tiles = tiles_between(start, work.end);
    const u32 stages = shared_address(shared) + warp * STAGES * STAGE;
    i32 page = page_of(p, work, start + lane % TILE);
    i32 loaded = 0;
    const auto load_next = [&]() {
        const i32 tile = start + loaded * ROUND;
        const i32 next_page = page_of(p, work, tile + ROUND + lane % TILE);
        if (loaded < tiles) load_tile(p, work, stages + loaded % STAGES * STAGE, tile, page, lane);
        copy_async_commit();
        page = next_page;
        loaded++;
    };
    // Keys of earlier steps are there, see `work_of`; only this step's are still being written.
    while (loaded < min(STAGES - 1, tiles) && start + loaded * ROUND + TILE <= work.past)
        load_next();
    wait_for_inputs();
    let_next_start();
    while (loaded < STAGES - 1) load_next();
    u32 q[STEPS][2];
    load_queries(p, work, q, lane);
    State state = empty_state();
    for (i32 tile = 0; tile < tiles; tile++) {
        copy_async_wait<STAGES - 2>();
        __syncwarp();
        load_next();
        const int at = tile % STAGES * STAGE;
        const float *scales = (const float *)(shared + warp * STAGES * STAGE + at + 2 * SIDE);
        attend(state, stages + at, scales, q, work, start + tile * ROUND, p.scale, lane);
    }
    __syncthreads();
    const WarpSums warps(shared);
    const float none[2] = {};
    warps.put(state, none, none, warp, lane);
    merge(p, work.block, work.splits, warps, warp, lane, [](i32, const Stats &) {});
}
