// ptx: bf16_64 -DPAGE=bf16 -DHEAD_DIM=64
// ptx: bf16_128 -DPAGE=bf16 -DHEAD_DIM=128
// ptx: f16_64 -DPAGE=f16 -DHEAD_DIM=64
// ptx: f16_128 -DPAGE=f16 -DHEAD_DIM=128
// ptx: steps8_64 -DPAGE=steps8 -DHEAD_DIM=64
// ptx: steps8_128 -DPAGE=steps8 -DHEAD_DIM=128
// ptx: steps4_64 -DPAGE=steps4 -DHEAD_DIM=64
// ptx: steps4_128 -DPAGE=steps4 -DHEAD_DIM=128
// ptx: e4m3_64 -DPAGE=e4m3 -DHEAD_DIM=64
// ptx: e4m3_128 -DPAGE=e4m3 -DHEAD_DIM=128
//
// Attention of single rows over slots, whose keys and values have the same format, and what it adds
// to scores: a decode step.
//
// As in decode.cu a block has up to 8 query heads of one kv head of one row and a split of its
// slots; keys are the rows of the tensor cores' left side, heads the columns of the right one. Each
// warp takes every fourth tile of 16 slots, with a softmax and a pipeline of copies of its own.
// Splits meet in `partials`; the last block of a row to arrive adds them up.
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
#include "slot_decode.cuh"
#include "slot_products.cuh"

typedef PAGE Page;
typedef SlotType<Page>::Query Query;

static const bool SCALED = SlotType<Page>::SCALE_BYTES > 0;
static const bool STEPPED = SlotType<Page>::STEPPED;
static const int WARPS = 4;
/// Slots of a tile, and of one round of all warps; every split starts at a multiple of a round.
static const int TILE = 16;
static const int ROUND = WARPS * TILE;
/// Query heads of a block.
static const int HEADS = 8;
/// Bytes of one key, and of a tile's keys.
static const int ROW = HEAD_DIM * SlotType<Page>::BITS / 8;
static const int SIDE = TILE * ROW;
/// Bytes of a tile's keys and values, their scales, positions and norms of values.
static const int SCALES = TILE * SlotType<Page>::SCALE_BYTES;
static const int STAGE = 2 * SIDE + 2 * SCALES + 2 * TILE * 4;
/// Tiles of a warp in shared memory: enough bytes in flight to saturate the memory of an H200.
static const int STAGES = ROW >= 128 ? 3 : 6;
/// Blocks on a multiprocessor; fewer where keys turn, which takes more registers.
static const int BLOCKS = ROW > 128 ? 2 : 4;
static const int TURNING_BLOCKS = ROW > 128 ? 2 : 3;
/// Tensor-core steps of 16 numbers along a head.
static const int STEPS = HEAD_DIM / 16;
/// Floats from one head's sums to the next in shared memory, without bank conflicts.
static const int PITCH = HEAD_DIM + 4;

/// What a block does. Slots `first..end` are those of its split that its row may see.
struct Work {
    i32 row, kv_head, head, heads;
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
    work.row = p.first_row + blockIdx.z;
    const i32 blocks = (p.group + HEADS - 1) / HEADS;
    const i32 head_in_group = blockIdx.x % blocks * HEADS;
    work.kv_head = blockIdx.x / blocks;
    work.head = work.kv_head * p.group + head_in_group;
    work.heads = min(HEADS, p.group - head_in_group);
    const Rule rule = p.rows.rules[work.row];
    if (rule.past < 0) return work;
    work.table = table_of(p.rows, work.row);
    work.at = rule.past;
    work.fresh = p.slots[work.row * p.layer.kv_heads + work.kv_head];
    work.rerotated_slots = p.has_rerotated ? rule.protected_tokens : 0;
    work.scale = scale_of_seq(p.rope, work.row, p.scale);
    work.adds_to_scores = adds_to_scores(rule);
    work.by_value_norm = work.adds_to_scores && rule.by_value_norm;
    work.kept = kept_of(p, blockIdx.z, work.kv_head) + head_in_group;
    work.peaks = peaks_of(p, blockIdx.z, work.kv_head) + head_in_group;
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

/// A chunk of 16 bytes of a tile, at a place where eight rows of one column lie in all banks.
DEVICE u32 swizzled(int row, int chunk) {
    const int exchange = ROW >= 128 ? row & 7 : ROW == 64 ? row >> 1 & 3 : row >> 2 & 1;
    return row * ROW + ((chunk ^ exchange) << 4);
}

// ---- Loading a tile.

/// Page of a slot, or -1 where the block takes no such slot.
DEVICE i32 page_of(const Work &work, i32 slot, const SlotWalk &at) {
    return slot < work.first || work.end <= slot ? -1 : work.table[at.logical];
}

/// Copies a tile; `page` and `offset` are the lane's slot's.
DEVICE void load_tile(const SlotDecodeParams &p, const Work &work, u32 stage, i32 page, u32 offset,
                      u64 policy, int lane) {
    const u32 row = work.kv_head * p.layer.page_slots + offset;
    const bool is_there = 0 <= page;
    const u64 own = is_there ? (u64)(u32)page * p.layer.page_bytes : 0;
    const u64 nowhere = ~0ull;
    const u64 row_at = is_there ? own + (u64)row * ROW : nowhere;
    const u8 *keys = p.layer.pages + p.layer.keys.numbers;
    const u8 *values = p.layer.pages + p.layer.values.numbers;
    const int chunks = ROW / 16;
#pragma unroll
    for (int i = lane; i < SIDE / 16; i += 32) {
        const int in_tile = i / chunks, chunk = i % chunks;
        const u64 from = __shfl_sync(~0u, row_at, in_tile);
        const bool has_row = from != nowhere;
        const u64 at = has_row ? from + chunk * 16 : 0;
        copy_passing16(stage + swizzled(in_tile, chunk), keys + at, has_row, policy);
        copy_passing16(stage + SIDE + swizzled(in_tile, chunk), values + at, has_row, policy);
    }
    // Half of the lanes copy what lies beside keys, the others what lies beside values.
    const bool is_key = lane < TILE;
    const u8 *beside = p.layer.pages + own;
    const u32 there = is_there ? row : 0;
    if (SCALED) {
        const u32 bytes = SlotType<Page>::SCALE_BYTES;
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
    const i32 index = work.head + head + (is_rerotated ? p.layer.kv_heads * p.group : 0);
    const float *from = queries_of(p, work.row) + (u64)index * HEAD_DIM;
    Queries queries;
    float sum = 0.0f;
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        float x[4] = {};
        if (head < work.heads) load_step<Page>(x, from + 16 * step, t);
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

// ---- One tile. A lane has the scores of slots g and g + 8 (g = lane / 4) for two heads.

/// A warp's sums so far; `sums` and `moved`, the sum of weights times zero points, are in units of
/// `unit` where values have scales.
struct State {
    float largest[2], total[2], normed[2], moved[2];
    float sums[STEPS][4];
    float unit;
};

/// What lies beside the keys and values of a tile.
struct Beside {
    const u8 *shared;
    DEVICE float scale(int side, int slot) const {
        return *(const float *)(shared + side * SCALES + slot * SlotType<Page>::SCALE_BYTES);
    }
    /// Less what `codes` are moved by.
    DEVICE float zero(int side, int slot) const {
        const i32 zero = *(const i32 *)(shared + side * SCALES + slot * 8 + 4);
        return (float)(zero - SlotType<Page>::MIDDLE);
    }
    DEVICE i32 position(int slot) const { return ((const i32 *)(shared + 2 * SCALES))[slot]; }
    DEVICE float norm(int slot) const {
        return ((const float *)(shared + 2 * SCALES))[TILE + slot];
    }
};

DEVICE RerotatingKeys rerotating_keys(const ReadRope &rope, const Work &work, const Beside &beside,
                                int lane) {
    RerotatingKeys keys = {rope.inv_freqs + work.row * rope.pairs, rope.is_interleaved != 0};
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
template <bool TURNS>
DEVICE void score(float s[4], const SlotDecodeParams &p, const Work &work, u32 keys,
                  const Beside &beside, const Queries &queries, int lane) {
    const float scale = work.scale;
#pragma unroll
    for (int i = 0; i < 4; i++) s[i] = 0.0f;
    const auto address = [&](int chunk) { return keys + swizzled(lane % 16, chunk + lane / 16); };
    if (TURNS) {
        const RerotatingKeys turning = rerotating_keys(p.rope, work, beside, lane);
        multiply_rerotated_keys<Page, STEPS>(s, queries.q, address, turning, lane % 4);
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

/// Over the lanes that have other slots of the same heads.
DEVICE float max_over_slots(float x) {
#pragma unroll
    for (int step = 4; step < 32; step *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}
DEVICE float sum_over_slots(float x) {
#pragma unroll
    for (int step = 4; step < 32; step *= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

/// All scores of a tile, minus infinity where a slot is not seen.
template <bool TURNS>
DEVICE void scores_of_tile(float s[4], const SlotDecodeParams &p, const Work &work, u32 stage,
                           const Beside &beside, const Queries &queries, i32 start, int lane) {
    score<TURNS>(s, p, work, stage, beside, queries, lane);
    if (start < work.rerotated_slots) {
        const Queries rerotated = load_queries(p, work, true, lane);
        float other[4];
        score<TURNS>(other, p, work, stage, beside, rerotated, lane);
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
DEVICE void keep(const SlotDecodeParams &p, const Work &work, const State &state, const float s[4],
                 i32 start, int lane) {
    const int g = lane / 4, head = lane % 4 * 2;
    if (work.heads <= head) return;
    const u32 pairs[2] = {pack<f16>(s[0], s[1]), pack<f16>(s[2], s[3])};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const i32 slot = start + g + 8 * half;
        if (slot < work.end) *(u32 *)(work.kept + (u64)slot * kept_heads(p) + head) = pairs[half];
    }
    if (g == 0)
        *(float2 *)(work.peaks + (u64)(start / TILE) * kept_heads(p) + head) =
            make_float2(state.largest[0], state.largest[1]);
}

template <bool TURNS>
DEVICE void attend(State &state, const SlotDecodeParams &p, const Work &work, u32 stage,
                   const Beside &beside, const Queries &queries, i32 start, int lane) {
    const int g = lane / 4;
    float s[4], shrink[2];
    scores_of_tile<TURNS>(s, p, work, stage, beside, queries, start, lane);
#pragma unroll
    for (int head = 0; head < 2; head++) {
        const float most = fmaxf(state.largest[head], max_over_slots(fmaxf(s[head], s[head + 2])));
        // A tile may hold no slot that is seen.
        const float from = most == MINUS_INFINITY ? 0.0f : most;
        shrink[head] = exp2_fast(state.largest[head] - from);
        state.largest[head] = most;
        s[head] = exp2_fast(s[head] - from);
        s[head + 2] = exp2_fast(s[head + 2] - from);
        state.total[head] = state.total[head] * shrink[head] + (s[head] + s[head + 2]);
        if (work.by_value_norm)
            state.normed[head] = state.normed[head] * shrink[head] +
                                 (s[head] * beside.norm(g) + s[head + 2] * beside.norm(g + 8));
    }
    if (work.adds_to_scores) keep(p, work, state, s, start, lane);
    if (SCALED) {
        // Weights times scales of values, in a unit that keeps them from vanishing in f16. It is
        // a power of two: a change of it changes no digits.
        const float low = beside.scale(1, g), high = beside.scale(1, g + 8);
        const float unit = fmaxf(state.unit, power_of_two_below(max_over_slots(fmaxf(low, high))));
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
    const u32 rounded[2] = {pack<Query>(s[0], s[1]), pack<Query>(s[2], s[3])};
    if (STEPPED) {
        // Of the weights that are multiplied, or what zero points add would not be taken off.
        const float low = beside.zero(1, g), high = beside.zero(1, g + 8);
        state.moved[0] = state.moved[0] * shrink[0] + low_of<Query>(rounded[0]) * low +
                         low_of<Query>(rounded[1]) * high;
        state.moved[1] = state.moved[1] * shrink[1] + high_of<Query>(rounded[0]) * low +
                         high_of<Query>(rounded[1]) * high;
    }
    const u32 weights[2] = {transposed(rounded[0]), transposed(rounded[1])};
    const auto address = [&](int row, int chunk) { return stage + SIDE + swizzled(row, chunk); };
    multiply_values<Page, STEPS>(state.sums, weights, address, lane);
}

// ---- The end: warps are added up, then splits.

DEVICE void write_out(const SlotDecodeParams &p, i32 row, i32 head, int number, const float x[4]) {
    const u64 at = ((u64)row * p.layer.kv_heads * p.group + head) * HEAD_DIM + number;
    if (p.out_is_f32) store_four<float>((float *)p.out + at, x);
    else store_four<bf16>((bf16 *)p.out + at, x);
}

/// Index of a split's sums in `partials`, and of its `Stats` in what follows them.
DEVICE u64 partial_of(const SlotDecodeParams &p, i32 head, i32 split) {
    return ((u64)blockIdx.z * p.layer.kv_heads * p.group + head) * gridDim.y + split;
}
DEVICE Stats *partial_stats(const SlotDecodeParams &p) {
    const u64 partials = (u64)gridDim.z * p.layer.kv_heads * p.group * gridDim.y;
    return (Stats *)(p.partials + partials * HEAD_DIM);
}

/// Puts a warp's sums where every warp of the block can read them.
DEVICE void split_state(const State &state, float *sums, Stats *stats, int lane) {
    const int t = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int head = 2 * t + i;
        const Stats own = {state.largest[i], sum_over_slots(state.total[i]),
                           sum_over_slots(state.normed[i]), 0.0f};
        const float moved = STEPPED ? sum_over_slots(state.moved[i]) : 0.0f;
        if (lane / 4 == 0) stats[head] = own;
#pragma unroll
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                sums[head * PITCH + number_of<Page>(step, half, lane)] =
                    (state.sums[step][2 * half + i] - moved) * (SCALED ? state.unit : 1.0f);
    }
}

/// Adds `part`, in which scores are counted from another largest one.
DEVICE float add_stats(Stats &all, const Stats &part) {
    const float weight = all.largest == MINUS_INFINITY ? 0.0f
                                                       : exp2_fast(part.largest - all.largest);
    all.total += weight * part.total;
    all.normed += weight * part.normed;
    return weight;
}

/// Adds up the warps' sums of one head: the result where there is one split, else a part of it.
DEVICE void add_warps(const SlotDecodeParams &p, const Work &work, const float *sums,
                      const Stats *stats, int head, int lane) {
    Stats all = {MINUS_INFINITY, 0.0f, 0.0f, 0.0f};
    float weight[WARPS];
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++)
        all.largest = fmaxf(all.largest, stats[warp * HEADS + head].largest);
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++)
        weight[warp] = add_stats(all, stats[warp * HEADS + head]);
    const u64 partial = partial_of(p, work.head + head, blockIdx.y);
    const int number = 4 * lane;
    if (number < HEAD_DIM) {
        float x[4] = {};
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) {
            const float *from = sums + (warp * HEADS + head) * PITCH + number;
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] += weight[warp] * from[i];
        }
        if (work.splits == 1) {
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] /= all.total;
            write_out(p, work.row, work.head + head, number, x);
        } else {
            store_four<float>(p.partials + partial * HEAD_DIM + number, x);
        }
    }
    if (lane > 0) return;
    if (work.splits == 1) *stats_of(p, work.row, work.head + head) = all;
    else partial_stats(p)[partial] = all;
}

/// Whether this block is the last of its row and kv head; that one leaves the count at zero.
DEVICE bool is_last_to_arrive(const SlotDecodeParams &p, const Work &work) {
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
DEVICE void add_splits(const SlotDecodeParams &p, const Work &work, i32 head, int lane) {
    const u64 partial = partial_of(p, head, 0);
    const Stats *stats = partial_stats(p) + partial;
    Stats all = {MINUS_INFINITY, 0.0f, 0.0f, 0.0f};
    for (int split = lane; split < work.splits; split += 32)
        all.largest = fmaxf(all.largest, load_fresh(&stats[split].largest));
    all.largest = warp_max(all.largest);
    float x[4] = {};
    const int number = 4 * lane;
    for (int start = 0; start < work.splits; start += 32) {
        const int count = min(32, work.splits - start);
        float weight = 0.0f;
        if (lane < count) {
            float own[4];
            load_fresh_four(own, &stats[start + lane].largest);
            weight = add_stats(all, {own[0], own[1], own[2], own[3]});
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
    all.total = warp_sum(all.total);
    all.normed = warp_sum(all.normed);
#pragma unroll
    for (int j = 0; j < 4; j++) x[j] /= all.total;
    if (number < HEAD_DIM) write_out(p, work.row, head, number, x);
    if (lane == 0) *stats_of(p, work.row, head) = all;
}

static_assert(HEAD_DIM <= 128, "a lane has four numbers of a head");
static_assert(WARPS * HEADS * (PITCH + 4) * 4 <= WARPS * STAGES * STAGE, "sums fit into the tiles");

template <bool TURNS> DEVICE void decode(const SlotDecodeParams &p) {
    extern __shared__ __align__(128) u8 shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Work work = work_of(p);
    if (work.splits <= (i32)blockIdx.y) {
        wait_for_inputs();
        const float zeros[4] = {};
        const bool writes = work.splits == 0 && blockIdx.y == 0 && 4 * lane < HEAD_DIM;
        for (int head = warp; writes && head < work.heads; head += WARPS)
            write_out(p, work.row, work.head + head, 4 * lane, zeros);
        return;
    }
    // Tiles of this warp: from `start` on, one a round.
    const i32 start = work.first / ROUND * ROUND + warp * TILE;
    const i32 tiles = max(0, (work.end - start + ROUND - 1) / ROUND);
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
    State state = {{MINUS_INFINITY, MINUS_INFINITY}, {}, {}, {}, {}, 0.0f};
    for (i32 tile = 0; tile < tiles; tile++) {
        copy_async_wait<STAGES - 2>();
        __syncwarp();
        load_next();
        const int stage = tile % STAGES * STAGE;
        const Beside beside = {shared + warp * STAGES * STAGE + stage + 2 * SIDE};
        attend<TURNS>(state, p, work, stages + stage, beside, queries, start + tile * ROUND, lane);
    }
    __syncthreads();
    float *sums = (float *)shared;
    Stats *stats = (Stats *)(sums + WARPS * HEADS * PITCH);
    split_state(state, sums + warp * HEADS * PITCH, stats + warp * HEADS, lane);
    __syncthreads();
    for (int head = warp; head < work.heads; head += WARPS)
        add_warps(p, work, sums, stats, head, lane);
    if (work.splits == 1 || !is_last_to_arrive(p, work)) return;
    for (int head = warp; head < work.heads; head += WARPS)
        add_splits(p, work, work.head + head, lane);
}

/// Grid: kv heads times blocks of their query heads, splits, rows.
KERNEL __launch_bounds__(WARPS * 32, BLOCKS)
    slot_decode(const __grid_constant__ SlotDecodeParams p) {
    decode<false>(p);
}
/// The same over keys that turn when they are read.
KERNEL __launch_bounds__(WARPS * 32, TURNING_BLOCKS)
    slot_decode_rerotating(const __grid_constant__ SlotDecodeParams p) {
    decode<true>(p);
}
