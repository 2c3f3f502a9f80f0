// ptx: bf16_64 -DPAGE=bf16 -DHEAD_DIM=64
// ptx: bf16_128 -DPAGE=bf16 -DHEAD_DIM=128
// ptx: f16_64 -DPAGE=f16 -DHEAD_DIM=64
// ptx: f16_128 -DPAGE=f16 -DHEAD_DIM=128
// ptx: steps8_64 -DPAGE=steps8 -DHEAD_DIM=64
// ptx: steps8_128 -DPAGE=steps8 -DHEAD_DIM=128
// ptx: steps4_64 -DPAGE=steps4 -DHEAD_DIM=64
// ptx: steps4_128 -DPAGE=steps4 -DHEAD_DIM=128
// ptx: dynamic8_64 -DPAGE=dynamic8 -DHEAD_DIM=64
// ptx: dynamic8_128 -DPAGE=dynamic8 -DHEAD_DIM=128
// ptx: float4_64 -DPAGE=float4s -DHEAD_DIM=64
// ptx: float4_128 -DPAGE=float4s -DHEAD_DIM=128
// ptx: e4m3_64 -DPAGE=e4m3 -DHEAD_DIM=64
// ptx: e4m3_128 -DPAGE=e4m3 -DHEAD_DIM=128
//
// Attention of single rows over slots, whose keys and values have the same format, and what it adds
// to scores: a decode step.
//
// See split_kv.cuh, which has what it shares with decode.cu.
//
// A row's weights are known when all its splits are. Until then `kept` has what the softmax made of
// each slot, 2 bytes for each head, in the second-level cache: keys and values make way for it.
// slot_weigh.cu makes weights of it.
//
// Where splits end follows from the number of filled slots alone, so a row's result is the same in
// every batch.
//
// Roofline: bound by memory. Each key and value is read once for the group of heads.

#include "slots.cuh"

#include "row_products.cuh"

#include "softmax_stats.cuh"

typedef PAGE Page;

#include "split_kv.cuh"

#include "slot_decode.cuh"

#include "slot_products.cuh"

static const bool STEPPED = RowType<Page>::STEPPED;
/// Bytes of a tile's keys and values, their scales, positions and norms of values.
static const int SCALES = TILE * RowType<Page>::SCALE_BYTES;
static const int STAGE = 2 * SIDE + 2 * SCALES + 2 * TILE * 4;
/// Tiles of a warp in shared memory: enough bytes in flight to saturate the memory of an H200.
static const int STAGES = ROW >= 128 ? 3 : 6;
/// Blocks on a multiprocessor; fewer where keys are rotated, which takes more registers.
static const int BLOCKS = ROW > 128 ? 2 : 4;
static const int ROTATING_BLOCKS = ROW > 128 ? 2 : 3;
/// What a block does. Slots `first..end` are those of its split that its row may see.
struct Work {
    BlockHeads block;
    const i32 *table;
    /// Position of the row, and the slot it has taken.
    i32 at, fresh;
    i32 first, end;
    /// Slots below see the re-rotated query.
    i32 rerotated_slots;
    float scale;
    /// Splits of this row that hold slots; 0 where there is no row.
    i32 splits;
    bool adds_to_scores, by_value_norm;
    /// Of the block's heads, for the row's first slot and tile.
    f16 *kept;
    float *peaks;
};

/// Slots of a split: 16 splits, unless these are too short to be worth it or too long.
DEVICE i32 split_of(i32 filled) {
    const i32 sixteenth = (filled + 16 * ROUND - 1) / (16 * ROUND) * ROUND;
    return min(max(sixteenth, 512), 2048);
}

// May run before `wait_for_inputs`: the kernel before this one (slot_store) lets it start only when
// all that came before itself has ended, and writes none of what is read here.
DEVICE Work work_of(const SlotDecodeParams &p) {
    Work work = {};
    work.block = heads_of_block(p.first_row, p.group);
    const i32 row = work.block.row, kv_head = work.block.kv_head;
    const i32 head_in_group = work.block.head - kv_head * p.group;
    const Rule rule = p.rows.rules[row];
    if (rule.past < 0) return work;
    work.table = table_of(p.rows, row);
    work.at = rule.past;
    work.fresh = p.slots[row * p.layer.kv_heads + kv_head];
    work.rerotated_slots = p.has_rerotated ? rule.protected_tokens : 0;
    work.scale = scale_of_seq(p.rope, row, p.scale);
    work.adds_to_scores = adds_to_scores(rule);
    work.by_value_norm = work.adds_to_scores && rule.by_value_norm;
    work.kept = kept_of(p, blockIdx.z, kv_head) + head_in_group;
    work.peaks = peaks_of(p, blockIdx.z, kv_head) + head_in_group;
    const i32 filled = filled_slots(rule, 1);
    // Only where nothing leaves is a slot the position of its token.
    const bool in_order = p.window > 0 && rule.kind == KEEP;
    const i32 visible = in_order ? max(0, filled - p.window) : 0;
    const i32 split = split_of(filled);
    const i32 origin = visible / split * split, start = origin + blockIdx.y * split;
    work.splits = (filled - origin + split - 1) / split;
    work.first = max(visible, start);
    work.end = min(filled, start + split);
    return work;
}

// ---- Loading a tile.

/// Page of a slot, or -1 where the block takes no such slot.
DEVICE i32 page_of(const Work &work, i32 slot, const SlotWalk &at) {
    return slot < work.first || work.end <= slot ? -1 : work.table[at.logical];
}

/// Copies a tile; `page` and `offset` are the lane's slot's.
DEVICE void load_tile(const SlotDecodeParams &p, const Work &work, u32 stage, i32 page, u32 offset,
                      u64 policy, int lane) {
    const u32 row = work.block.kv_head * p.layer.page_slots + offset;
    const bool is_there = 0 <= page;
    const u64 own = is_there ? (u64)(u32)page * p.layer.page_bytes : 0;
    const u64 row_at = is_there ? own + (u64)row * ROW : NO_ROW;
    const u8 *keys = p.layer.pages + p.layer.keys.numbers;
    const u8 *values = p.layer.pages + p.layer.values.numbers;
    load_rows(stage, keys, values, row_at, lane, [&](u32 to, const void *from, bool has_row) {
        copy_passing16(to, from, has_row, policy);
    });
    // Half of the lanes copy what lies beside keys, the others what lies beside values.
    const bool is_key = lane < TILE;
    const u8 *beside = p.layer.pages + own;
    const u32 there = is_there ? row : 0;
    if (SCALED) {
        const u32 bytes = RowType<Page>::SCALE_BYTES;
        const u8 *from = beside + (is_key ? p.layer.keys.scales : p.layer.values.scales);
        copy_async_small<bytes>(stage + 2 * SIDE + lane * bytes, from + there * bytes, is_there);
    }
    if (is_key || work.by_value_norm) {
        const u8 *from = beside + (is_key ? p.layer.positions : p.layer.value_norms);
        copy_async_small<4>(stage + 2 * SIDE + 2 * SCALES + lane * 4, from + there * 4, is_there);
    }
}

/// Registers of the right side: heads are columns. `sums`: of the heads 2t and 2t + 1, where keys
/// have zero points.
struct Queries {
    u32 q[STEPS][2];
    float sums[2];
};

DEVICE Queries load_queries(const SlotDecodeParams &p, const Work &work, bool is_rerotated,
                            int lane) {
    const int head = lane / 4, t = lane % 4;
    const i32 index = work.block.head + head + (is_rerotated ? p.layer.kv_heads * p.group : 0);
    const float *from = queries_of(p, work.block.row) + (u64)index * HEAD_DIM;
    Queries queries;
    float sum = 0.0f;
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        float x[4] = {};
        if (head < work.block.heads) load_step<Page>(x, from, step, t);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            queries.q[step][i] = pack<Query>(x[2 * i], x[2 * i + 1]);
            if (STEPPED)
                sum += low_of<Query>(queries.q[step][i]) + high_of<Query>(queries.q[step][i]);
        }
    }
    if (STEPPED) {
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
#pragma unroll
        for (int i = 0; i < 2; i++) queries.sums[i] = __shfl_sync(~0u, sum, 4 * (2 * t + i));
    }
    return queries;
}

// ---- One tile.

/// A warp's sums so far; `moved`, the sum of weights times zero points, is in units of `unit` as
/// the sums are.
struct SlotState : State {
    float normed[2], moved[2];
};

/// What lies beside the keys and values of a tile.
struct Beside {
    const u8 *shared;
    DEVICE float scale(int side, int slot) const {
        const u8 *at = shared + side * SCALES + slot * RowType<Page>::SCALE_BYTES;
        return *(const float *)at * (1.0f / RowType<Page>::MULTIPLE);
    }
    /// Less what quantised values are moved by.
    DEVICE float zero(int side, int slot) const {
        const i32 zero = *(const i32 *)(shared + side * SCALES + slot * 8 + 4);
        return (float)(zero - RowType<Page>::MIDDLE);
    }
    DEVICE i32 position(int slot) const { return ((const i32 *)(shared + 2 * SCALES))[slot]; }
    DEVICE float norm(int slot) const {
        return ((const float *)(shared + 2 * SCALES))[TILE + slot];
    }
};

DEVICE RerotatingKeys rerotating_keys(const ReadRope &rope, const Work &work, const Beside &beside,
                                int lane) {
    RerotatingKeys keys = {rope.inv_freqs + work.block.row * rope.pairs, rope.is_interleaved != 0};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int slot = lane / 4 + 8 * half;
        keys.positions[half] = (float)beside.position(slot);
        if (SCALED) keys.scale[half] = beside.scale(0, slot);
        if (STEPPED) keys.zero[half] = beside.zero(0, slot);
    }
    return keys;
}

/// s: (slot g, heads 2t, 2t + 1), (slot g + 8, the same)
template <bool ROTATES>
DEVICE void score(float s[4], const SlotDecodeParams &p, const Work &work, u32 keys,
                  const Beside &beside, const Queries &queries, int lane) {
    const float scale = work.scale;
#pragma unroll
    for (int i = 0; i < 4; i++) s[i] = 0.0f;
    const auto address = [&](int vector) { return keys + swizzled(lane % 16, vector + lane / 16); };
    if (ROTATES) {
        const RerotatingKeys rotating = rerotating_keys(p.rope, work, beside, lane);
        multiply_rerotated_keys<Page, STEPS>(s, queries.q, address, rotating, lane % 4);
#pragma unroll
        for (int i = 0; i < 4; i++) s[i] *= scale;
        return;
    }
    multiply_keys<Page, STEPS>(s, queries.q, address);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int slot = lane / 4 + i / 2 * 8;
        if (STEPPED) s[i] -= beside.zero(0, slot) * queries.sums[i % 2];
        s[i] *= SCALED ? beside.scale(0, slot) * scale : scale;
    }
}

/// All scores of a tile, minus infinity where a slot is not seen.
template <bool ROTATES>
DEVICE void scores_of_tile(float s[4], const SlotDecodeParams &p, const Work &work, u32 stage,
                           const Beside &beside, const Queries &queries, i32 start, int lane) {
    score<ROTATES>(s, p, work, stage, beside, queries, lane);
    if (start < work.rerotated_slots) {
        const Queries rerotated = load_queries(p, work, true, lane);
        float other[4];
        score<ROTATES>(other, p, work, stage, beside, rerotated, lane);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (start + lane / 4 + i / 2 * 8 < work.rerotated_slots) s[i] = other[i];
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int slot = lane / 4 + 8 * half;
        const i32 position = beside.position(slot), number = start + slot;
        const bool is_there = work.first <= number && number < work.end;
        const bool is_near = p.window == 0 || work.at - position < p.window;
        const bool is_seen = is_there && 0 <= position && position <= work.at && is_near;
        if (!is_seen) s[2 * half] = s[2 * half + 1] = MINUS_INFINITY;
    }
}

/// Keeps what a tile's slots are worth, in units of the largest score so far.
DEVICE void keep(const SlotDecodeParams &p, const Work &work, const Softmax &softmax,
                 const float s[4], i32 start, int lane) {
    const int g = lane / 4, head = lane % 4 * 2;
    if (work.block.heads <= head) return;
    const u32 pairs[2] = {pack<f16>(s[0], s[1]), pack<f16>(s[2], s[3])};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const i32 slot = start + g + 8 * half;
        if (slot < work.end) *(u32 *)(work.kept + (u64)slot * kept_heads(p) + head) = pairs[half];
    }
    if (g == 0)
        *(float2 *)(work.peaks + (u64)(start / TILE) * kept_heads(p) + head) =
            make_float2(softmax.largest[0], softmax.largest[1]);
}

template <bool ROTATES>
DEVICE void attend(SlotState &state, const SlotDecodeParams &p, const Work &work, u32 stage,
                   const Beside &beside, const Queries &queries, i32 start, int lane) {
    const int g = lane / 4;
    float s[4], shrink[2];
    scores_of_tile<ROTATES>(s, p, work, stage, beside, queries, start, lane);
    weigh(state.softmax, s, shrink);
#pragma unroll
    for (int head = 0; head < 2; head++)
        if (work.by_value_norm)
            state.normed[head] = state.normed[head] * shrink[head] +
                                 (s[head] * beside.norm(g) + s[head + 2] * beside.norm(g + 8));
    if (work.adds_to_scores) keep(p, work, state.softmax, s, start, lane);
    if (SCALED) scale_weights(state, s, shrink, beside.scale(1, g), beside.scale(1, g + 8));
    const u32 packed[2] = {pack<Query>(s[0], s[1]), pack<Query>(s[2], s[3])};
    if (STEPPED) {
        // Of the weights that are multiplied, or what zero points add would not be taken off.
        const float low = beside.zero(1, g), high = beside.zero(1, g + 8);
        state.moved[0] = state.moved[0] * shrink[0] + low_of<Query>(packed[0]) * low +
                         low_of<Query>(packed[1]) * high;
        state.moved[1] = state.moved[1] * shrink[1] + high_of<Query>(packed[0]) * low +
                         high_of<Query>(packed[1]) * high;
    }
    add_values(state, shrink, packed, stage + SIDE, lane);
}

static_assert(WarpSums::BYTES <= WARPS * STAGES * STAGE, "sums fit into the tiles");

template <bool ROTATES> DEVICE void decode(const SlotDecodeParams &p) {
    extern __shared__ __align__(128) u8 shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    prepare_rows<Page>(p.layer.books[0].values);
    const Work work = work_of(p);
    if (has_no_keys(p, work, warp, lane)) return;
    const i32 start = first_tile_of(work.first, warp), tiles = tiles_between(start, work.end);
    const u32 stages = shared_address(shared) + warp * STAGES * STAGE;
    const u64 policy = passing_policy();
    const SlotWalk round = walk_to(p.layer, ROUND);
    SlotWalk at = walk_to(p.layer, start + lane % TILE);
    i32 page = page_of(work, start + lane % TILE, at);
    i32 loaded = 0;
    const auto load_next = [&]() {
        const SlotWalk next = walk_on(p.layer, at, round);
        const i32 next_page = page_of(work, start + (loaded + 1) * ROUND + lane % TILE, next);
        const u32 stage = stages + loaded % STAGES * STAGE;
        if (loaded < tiles) load_tile(p, work, stage, page, at.offset, policy, lane);
        copy_async_commit();
        at = next;
        page = next_page;
        loaded++;
    };
    // Slots of earlier steps are there, see `work_of`; only this step's is still being written.
    const auto is_fresh = [&]() { return work.fresh / TILE == start / TILE + loaded * WARPS; };
    while (loaded < STAGES - 1 && !is_fresh()) load_next();
    wait_for_inputs();
    let_next_start();
    while (loaded < STAGES - 1) load_next();
    const Queries queries = load_queries(p, work, false, lane);
    SlotState state = {empty_state(), {}, {}};
    for (i32 tile = 0; tile < tiles; tile++) {
        copy_async_wait<STAGES - 2>();
        __syncwarp();
        load_next();
        const int stage = tile % STAGES * STAGE;
        const Beside beside = {shared + warp * STAGES * STAGE + stage + 2 * SIDE};
        attend<ROTATES>(state, p, work, stages + stage, beside, queries, start + tile * ROUND,
                        lane);
    }
    __syncthreads();
    const WarpSums warps(shared);
    float moved[2] = {};
#pragma unroll
    for (int i = 0; STEPPED && i < 2; i++) moved[i] = sum_over_keys(state.moved[i]);
    warps.put(state, state.normed, moved, warp, lane);
    merge(p, work.block, work.splits, warps, warp, lane, [&](i32 head, const Stats &stats) {
        *stats_of(p, work.block.row, head) = stats;
    });
}

KERNEL __launch_bounds__(WARPS * 32, BLOCKS)
    slot_decode(const __grid_constant__ SlotDecodeParams p) {
    decode<false>(p);
}
/// The same over keys that are rotated on read.
KERNEL __launch_bounds__(WARPS * 32, ROTATING_BLOCKS)
    slot_decode_rerotating(const __grid_constant__ SlotDecodeParams p) {
    decode<true>(p);
}
