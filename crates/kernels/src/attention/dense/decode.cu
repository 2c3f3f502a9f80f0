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
// A block has up to 8 query heads of one kv head of one row, and a split of the row's keys. Keys
// are the rows of the tensor cores' left side, heads the columns of the right one: a key is read
// from shared memory once for all heads. Each warp takes every fourth tile of 16 keys, with a
// softmax and a pipeline of copies of its own, so that warps never wait for each other before the
// end. Splits meet in `partials`; the last block of a row to arrive adds them up.
//
// Which keys a warp sums in which order follows from their positions and from `split_keys` (or the
// number of splits) alone. With `split_keys` a row's result is the same in every batch.
//
// Roofline: bound by memory. Each key and value is read once for the group of heads.

#include "pages.cuh"

typedef PAGE Page;
typedef PageType<Page>::Query Query;

static const bool SCALED = PageType<Page>::SCALED;
static const int WARPS = 4;
/// Keys of a tile, and of one round of all warps; every split starts at a multiple of a round.
static const int TILE = 16;
static const int ROUND = WARPS * TILE;
/// Query heads of a block.
static const int HEADS = 8;
/// Bytes of one key, of a tile's keys, and of its keys and values with their scales.
static const int ROW = HEAD_DIM * sizeof(Page);
static const int SIDE = TILE * ROW;
static const int STAGE = 2 * SIDE + (SCALED ? 2 * TILE * 4 : 0);
/// Tiles of a warp in shared memory. Two blocks fit on a multiprocessor, four or more where rows
/// are shorter: three times the bytes in flight that saturate the memory of an H200.
static const int STAGES = 3;
/// Tensor-core steps of 16 numbers along a head.
static const int STEPS = HEAD_DIM / 16;
/// Floats from one head's sums to the next in shared memory, without bank conflicts.
static const int PITCH = HEAD_DIM + 4;

struct DecodeParams {
    LayerPages layer;
    /// Query [rows, heads, HEAD_DIM]
    const Query *q;
    /// i32 [seqs, table_stride], i32 [seqs] (-1: no sequence)
    const i32 *block_tables, *past_tokens;
    /// i32 [rows], or null: row i is the next token of sequence i; and i32 [seqs + 1].
    const i32 *row_seqs, *live_starts;
    /// f32: sums [rows, heads, splits, HEAD_DIM], then (largest, total) [rows, heads, splits].
    float *partials;
    /// i32 [rows, blocks of heads]: zero between launches.
    i32 *arrivals;
    /// f32 or bf16 [rows, heads, HEAD_DIM]
    void *out;
    /// `first_row`: the row of the grid's first blocks, whose partials and arrivals are the first.
    i32 first_row, table_stride, group, window, split_keys, out_is_f32;
    /// The softmax's scale times log2(e).
    float scale;
};

/// What a block does. Keys `first..end` are those its row sees in this split.
struct Work {
    i32 row, kv_head, head, heads;
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
    work.row = p.first_row + blockIdx.z;
    const i32 blocks = (p.group + HEADS - 1) / HEADS;
    const i32 head_in_group = blockIdx.x % blocks * HEADS;
    work.kv_head = blockIdx.x / blocks;
    work.head = work.kv_head * p.group + head_in_group;
    work.heads = min(HEADS, p.group - head_in_group);
    const RowPlace place = place_of_row(work.row, p.row_seqs, p.live_starts, p.past_tokens);
    work.seq = place.seq;
    work.past = place.past;
    const i32 keys = place.position + 1;
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

/// A chunk of 16 bytes of a tile, at a place where eight rows of one column lie in all banks.
DEVICE u32 swizzled(int row, int chunk) {
    return row * ROW + ((chunk ^ (ROW >= 128 ? row & 7 : row >> 1 & 3)) << 4);
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
    const u32 row = row_in_page(p.layer, work.kv_head, offset);
    const u64 page_at = page_start(p.layer, page);
    const u64 nowhere = ~0ull;
    const u64 row_at = page < 0 ? nowhere : page_at + (u64)row * ROW;
    const u8 *keys = p.layer.pages + p.layer.key_offset;
    const u8 *values = p.layer.pages + p.layer.value_offset;
    const int chunks = ROW / 16;
#pragma unroll
    for (int i = lane; i < SIDE / 16; i += 32) {
        const int in_tile = i / chunks, chunk = i % chunks;
        const u64 from = __shfl_sync(~0u, row_at, in_tile);
        const bool is_there = from != nowhere;
        const u64 at = is_there ? from + chunk * 16 : 0;
        copy_async16(stage + swizzled(in_tile, chunk), keys + at, is_there);
        copy_async16(stage + SIDE + swizzled(in_tile, chunk), values + at, is_there);
    }
    if (SCALED) {
        const u8 *side = lane < TILE ? keys : values;
        const u64 at = page < 0 ? 0 : page_at + scales_offset(p.layer, ROW) + row * 4;
        copy_async4(stage + 2 * SIDE + lane * 4, side + at, 0 <= page);
    }
}

/// Registers of the right side: heads are columns. Over fp8 pages a lane has four neighbouring
/// numbers of each step, as it has of a key.
DEVICE void load_queries(const DecodeParams &p, const Work &work, u32 q[STEPS][2], int lane) {
    const int head = lane / 4, t = lane % 4;
    const u64 row = (u64)work.row * p.layer.kv_heads * p.group;
    const u32 *from = (const u32 *)(p.q + (row + work.head + head) * HEAD_DIM);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const bool is_there = head < work.heads;
        q[step][0] = is_there ? from[step * 8 + (SCALED ? 2 * t : t)] : 0;
        q[step][1] = is_there ? from[step * 8 + (SCALED ? 2 * t + 1 : t + 4)] : 0;
    }
}

// ---- One tile. A lane has the scores of keys g and g + 8 (g = lane / 4) for two heads.

/// A warp's sums so far; `sums` are in units of `unit` where values have scales.
struct State {
    float largest[2], total[2];
    float sums[STEPS][4];
    float unit;
};

/// s: (key g, heads 2t, 2t + 1), (key g + 8, the same)
DEVICE void score(float s[4], u32 keys, const u32 q[STEPS][2], int lane) {
#pragma unroll
    for (int i = 0; i < 4; i++) s[i] = 0.0f;
    if constexpr (SCALED) {
#pragma unroll
        for (int step = 0; step < STEPS; step += 2) {
            u32 four[4];
            load_matrices(four, keys + swizzled(lane % 16, step + lane / 16));
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const u32 low = four[2 * i], high = four[2 * i + 1];
                const u32 a[4] = {widen_pair<Page>(low), widen_pair<Page>(high),
                                  widen_pair<Page>(low >> 16), widen_pair<Page>(high >> 16)};
                mma<Query>(s, a, q[step + i]);
            }
        }
    } else {
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            u32 a[4];
            load_matrices(a, keys + swizzled(lane % 16, 2 * step + lane / 16));
            mma<Query>(s, a, q[step]);
        }
    }
}

/// sums: (number i, heads 2t, 2t + 1), (number i', the same), see `number_of`.
DEVICE void add_values(float sums[STEPS][4], u32 values, const u32 weights[2], int lane) {
    if constexpr (SCALED) {
#pragma unroll
        for (int step = 0; step < STEPS; step += 2) {
            u32 four[4];
            load_matrices_transposed(four, values + swizzled(lane % 16, step + lane / 16));
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const u32 low = four[2 * i], high = four[2 * i + 1];
                const u32 a[4] = {widen_pair<Page>(__byte_perm(low, 0, 0x4420)),
                                  widen_pair<Page>(__byte_perm(low, 0, 0x4431)),
                                  widen_pair<Page>(__byte_perm(high, 0, 0x4420)),
                                  widen_pair<Page>(__byte_perm(high, 0, 0x4431))};
                mma<Query>(sums[step + i], a, weights);
            }
        }
    } else {
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            u32 a[4];
            const int row = lane % 8 + lane / 16 * 8;
            load_matrices_transposed(a, values + swizzled(row, 2 * step + lane / 8 % 2));
            mma<Query>(sums[step], a, weights);
        }
    }
}

/// Number of the head that `sums[step][2 * half ..]` is for.
DEVICE int number_of(int step, int half, int lane) {
    return 16 * step + (SCALED ? lane / 4 * 2 + half : lane / 4 + 8 * half);
}

/// Over the lanes that have other keys of the same heads.
DEVICE float max_over_keys(float x) {
#pragma unroll
    for (int step = 4; step < 32; step *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}
DEVICE float sum_over_keys(float x) {
#pragma unroll
    for (int step = 4; step < 32; step *= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

DEVICE void attend(State &state, u32 stage, const float *scales, const u32 q[STEPS][2],
                   const Work &work, i32 start, float scale, int lane) {
    const int g = lane / 4;
    float s[4];
    score(s, stage, q, lane);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const i32 position = start + g + i / 2 * 8;
        const bool is_visible = work.first <= position && position < work.end;
        const float factor = SCALED ? scales[g + i / 2 * 8] * scale : scale;
        s[i] = is_visible ? s[i] * factor : MINUS_INFINITY;
    }
    float shrink[2];
#pragma unroll
    for (int head = 0; head < 2; head++) {
        const float most = fmaxf(state.largest[head], max_over_keys(fmaxf(s[head], s[head + 2])));
        // Where a window begins, a tile may hold no visible key.
        const float from = most == MINUS_INFINITY ? 0.0f : most;
        shrink[head] = exp2_fast(state.largest[head] - from);
        state.largest[head] = most;
        s[head] = exp2_fast(s[head] - from);
        s[head + 2] = exp2_fast(s[head + 2] - from);
        state.total[head] = state.total[head] * shrink[head] + (s[head] + s[head + 2]);
    }
    if (SCALED) {
        // Weights times scales of values, in a unit that keeps them from vanishing in f16. It is
        // a power of two: a change of it changes no digits.
        const float low = scales[TILE + g], high = scales[TILE + g + 8];
        const float unit = fmaxf(state.unit, power_of_two_below(max_over_keys(fmaxf(low, high))));
        const float inverse = inverse_power(unit);
#pragma unroll
        for (int i = 0; i < 4; i++) s[i] *= (i < 2 ? low : high) * inverse;
        shrink[0] *= state.unit * inverse;
        shrink[1] *= state.unit * inverse;
        state.unit = unit;
    }
#pragma unroll
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int i = 0; i < 4; i++) state.sums[step][i] *= shrink[i % 2];
    const u32 weights[2] = {transposed(pack<Query>(s[0], s[1])),
                            transposed(pack<Query>(s[2], s[3]))};
    add_values(state.sums, stage + SIDE, weights, lane);
}

// ---- The end: warps are added up, then splits.

DEVICE void write_out(const DecodeParams &p, i32 head, int number, const float x[4]) {
    const u64 row = (u64)(p.first_row + blockIdx.z) * p.layer.kv_heads * p.group;
    const u64 at = (row + head) * HEAD_DIM + number;
    if (p.out_is_f32) {
        store_four<float>((float *)p.out + at, x);
    } else {
        store_four<bf16>((bf16 *)p.out + at, x);
    }
}

/// Index of a split's sums in `partials`, and of its (largest, total) in what follows them.
DEVICE u64 partial_of(const DecodeParams &p, i32 head, i32 split) {
    return ((u64)blockIdx.z * p.layer.kv_heads * p.group + head) * gridDim.y + split;
}
DEVICE float *stats_of(const DecodeParams &p) {
    return p.partials + (u64)gridDim.z * p.layer.kv_heads * p.group * gridDim.y * HEAD_DIM;
}

/// Puts a warp's sums where every warp of the block can read them.
DEVICE void split_state(const State &state, float *sums, float *stats, int lane) {
    const int t = lane % 4;
#pragma unroll
    for (int head = 0; head < 2; head++) {
        const float total = sum_over_keys(state.total[head]);
        if (lane / 4 == 0) {
            stats[2 * (2 * t + head)] = state.largest[head];
            stats[2 * (2 * t + head) + 1] = total;
        }
#pragma unroll
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                sums[(2 * t + head) * PITCH + number_of(step, half, lane)] =
                    state.sums[step][2 * half + head] * (SCALED ? state.unit : 1.0f);
    }
}

/// Adds up the warps' sums of one head: the result where there is one split, else a part of it.
DEVICE void add_warps(const DecodeParams &p, const Work &work, const float *sums,
                      const float *stats, int head, int lane) {
    float most = MINUS_INFINITY, total = 0.0f, weight[WARPS];
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++)
        most = fmaxf(most, stats[(warp * HEADS + head) * 2]);
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) {
        weight[warp] = exp2_fast(stats[(warp * HEADS + head) * 2] - most);
        total += weight[warp] * stats[(warp * HEADS + head) * 2 + 1];
    }
    const u64 partial = partial_of(p, work.head + head, blockIdx.y);
    for (int number = 4 * lane; number < HEAD_DIM; number += 128) {
        float x[4] = {};
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) {
            const float *from = sums + (warp * HEADS + head) * PITCH + number;
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] += weight[warp] * from[i];
        }
        if (work.splits == 1) {
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] /= total;
            write_out(p, work.head + head, number, x);
        } else {
            store_four<float>(p.partials + partial * HEAD_DIM + number, x);
        }
    }
    if (work.splits > 1 && lane == 0) {
        stats_of(p)[2 * partial] = most;
        stats_of(p)[2 * partial + 1] = total;
    }
}

/// Whether this block is the last of its row and kv head; that one leaves the count at zero.
DEVICE bool is_last_to_arrive(const DecodeParams &p, const Work &work) {
    __shared__ i32 is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        i32 *arrivals = p.arrivals + blockIdx.z * gridDim.x + blockIdx.x;
        is_last = atomicAdd(arrivals, 1) == work.splits - 1;
        if (is_last) *arrivals = 0;
        __threadfence();
    }
    __syncthreads();
    return is_last;
}

/// Adds up the splits of one head, in their order.
DEVICE void add_splits(const DecodeParams &p, const Work &work, i32 head, int lane) {
    const u64 partial = partial_of(p, head, 0);
    const float *stats = stats_of(p) + 2 * partial;
    float most = MINUS_INFINITY;
    for (int split = lane; split < work.splits; split += 32)
        most = fmaxf(most, load_fresh(stats + 2 * split));
    most = warp_max(most);
    float total = 0.0f;
    float x[4] = {};
    const int number = 4 * lane;
    for (int start = 0; start < work.splits; start += 32) {
        const int count = min(32, work.splits - start);
        float weight = 0.0f;
        if (lane < count) {
            weight = exp2_fast(load_fresh(stats + 2 * (start + lane)) - most);
            total += weight * load_fresh(stats + 2 * (start + lane) + 1);
        }
#pragma unroll 4
        for (int i = 0; i < count; i++) {
            const float split = __shfl_sync(~0u, weight, i);
            if (number >= HEAD_DIM) continue;
            float part[4];
            load_fresh_four(part, p.partials + (partial + start + i) * HEAD_DIM + number);
#pragma unroll
            for (int j = 0; j < 4; j++) x[j] += split * part[j];
        }
    }
    total = warp_sum(total);
#pragma unroll
    for (int j = 0; j < 4; j++) x[j] /= total;
    if (number < HEAD_DIM) write_out(p, head, number, x);
}

static_assert(HEAD_DIM <= 128, "a lane has four numbers of a head");
static_assert(WARPS * HEADS * (PITCH + 2) * 4 <= WARPS * STAGES * STAGE, "sums fit into the tiles");

KERNEL __launch_bounds__(WARPS * 32) decode_attention(const __grid_constant__ DecodeParams p) {
    extern __shared__ __align__(128) u8 shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Work work = work_of(p);
    if (work.splits <= (i32)blockIdx.y) {
        wait_for_inputs();
        const float zeros[4] = {};
        const bool writes = work.splits == 0 && blockIdx.y == 0 && 4 * lane < HEAD_DIM;
        for (int head = warp; writes && head < work.heads; head += WARPS)
            write_out(p, work.head + head, 4 * lane, zeros);
        return;
    }
    // Tiles of this warp: from `start` on, one a round.
    const i32 start = work.first / ROUND * ROUND + warp * TILE;
    const i32 tiles = max(0, (work.end - start + ROUND - 1) / ROUND);
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
    State state = {{MINUS_INFINITY, MINUS_INFINITY}, {}, {}, 0.0f};
    for (i32 tile = 0; tile < tiles; tile++) {
        copy_async_wait<STAGES - 2>();
        __syncwarp();
        load_next();
        const int at = tile % STAGES * STAGE;
        const float *scales = (const float *)(shared + warp * STAGES * STAGE + at + 2 * SIDE);
        attend(state, stages + at, scales, q, work, start + tile * ROUND, p.scale, lane);
    }
    __syncthreads();
    float *sums = (float *)shared;
    float *stats = sums + WARPS * HEADS * PITCH;
    split_state(state, sums + warp * HEADS * PITCH, stats + warp * HEADS * 2, lane);
    __syncthreads();
    for (int head = warp; head < work.heads; head += WARPS)
        add_warps(p, work, sums, stats, head, lane);
    if (work.splits == 1 || !is_last_to_arrive(p, work)) return;
    for (int head = warp; head < work.heads; head += WARPS)
        add_splits(p, work, work.head + head, lane);
}
