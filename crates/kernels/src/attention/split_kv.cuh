// What decode.cu and slot_decode.cu share: attention of single query rows, whose keys are cut into
// splits. To be included after row_products.cuh and softmax_stats.cuh, with `Page` (what rows are
// stored as) and HEAD_DIM set.
//
// A block has up to 8 query heads of one kv head of one row, and a split of the row's keys. Keys
// are the rows of the tensor cores' left side, heads the columns of the right one: a key is read
// from shared memory once for all heads. Each warp takes every fourth tile of 16 keys, with a
// softmax and a pipeline of copies of its own, so that warps never wait for each other before the
// end. Splits meet in `partials`; the last block of a row to arrive merges them by log-sum-exp.
//
// Params have `partials` (f32: sums [rows, heads, splits, HEAD_DIM], then `Stats` [rows, heads,
// splits]), `arrivals` (i32 [rows, blocks of heads]: zero between launches), `out` (activations
// [rows, heads, HEAD_DIM]), `out_type`, `layer.kv_heads`, `group` and `first_row`, the row of the
// grid's first blocks, whose partials and arrivals are the first. Grid: kv heads times blocks of
// their query heads, splits, rows.

typedef RowType<Page>::Query Query;

static const bool SCALED = RowType<Page>::SCALE_BYTES > 0;
static const int WARPS = 4;
/// Keys of a tile, and of one round of all warps; every split starts at a multiple of a round.
static const int TILE = 16;
static const int ROUND = WARPS * TILE;
/// Query heads of a block.
static const int HEADS = 8;
/// Bytes of one key, and of a tile's keys.
static const int ROW = HEAD_DIM * RowType<Page>::BITS / 8;
static const int SIDE = TILE * ROW;
/// Tensor-core steps of 16 numbers along a head.
static const int STEPS = HEAD_DIM / 16;
/// Floats from one head's sums to the next in shared memory, without bank conflicts.
static const int PITCH = HEAD_DIM + 4;

static_assert(HEAD_DIM <= 128, "a lane has four numbers of a head");

/// Query heads `head..head + heads` of one row, which share a kv head.
struct BlockHeads {
    i32 row, kv_head, head, heads;
};

DEVICE BlockHeads heads_of_block(i32 first_row, i32 group) {
    const i32 blocks = (group + HEADS - 1) / HEADS;
    const i32 head_in_group = blockIdx.x % blocks * HEADS, kv_head = blockIdx.x / blocks;
    return {first_row + (i32)blockIdx.z, kv_head, kv_head * group + head_in_group,
            min(HEADS, group - head_in_group)};
}

/// A vector of 16 bytes of a tile, where eight rows of one column lie in all banks.
DEVICE u32 swizzled(int row, int vector) {
    const int exchange = ROW >= 128 ? row & 7 : ROW == 64 ? row >> 1 & 3 : row >> 2 & 1;
    return row * ROW + ((vector ^ exchange) << 4);
}

/// Where no row is.
static const u64 NO_ROW = ~0ull;

/// Copies a tile's keys and values; `row_at` is where the row of key `lane % 16` lies in each, or
/// NO_ROW. copy(shared, global, is_there) copies 16 bytes.
template <typename Copy>
DEVICE void load_rows(u32 stage, const u8 *keys, const u8 *values, u64 row_at, int lane,
                      Copy copy) {
    const int vectors = ROW / 16;
#pragma unroll
    for (int i = lane; i < SIDE / 16; i += 32) {
        const int in_tile = i / vectors, vector = i % vectors;
        const u64 from = __shfl_sync(~0u, row_at, in_tile);
        const bool is_there = from != NO_ROW;
        const u64 at = is_there ? from + vector * 16 : 0;
        copy(stage + swizzled(in_tile, vector), keys + at, is_there);
        copy(stage + SIDE + swizzled(in_tile, vector), values + at, is_there);
    }
}

// ---- One tile. A lane has the scores of keys g and g + 8 (g = lane / 4) for two heads:
// (key g, heads 2t, 2t + 1), (key g + 8, the same).

/// Of two heads; `largest` is in powers of two, `total` the lane's part.
struct Softmax {
    float largest[2], total[2];
};

/// A warp's sums so far; `sums` are in units of `unit` where values have scales.
struct State {
    Softmax softmax;
    float sums[STEPS][4];
    float unit;
};

DEVICE State empty_state() {
    return {{{MINUS_INFINITY, MINUS_INFINITY}, {}}, {}, 0.0f};
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

/// Scores to weights, in place; what earlier sums must be scaled by goes to `shrink`.
DEVICE void weigh(Softmax &softmax, float s[4], float shrink[2]) {
#pragma unroll
    for (int head = 0; head < 2; head++) {
        const float most = fmaxf(softmax.largest[head], max_over_keys(fmaxf(s[head], s[head + 2])));
        // A tile may hold no visible key.
        const float from = most == MINUS_INFINITY ? 0.0f : most;
        shrink[head] = exp2_fast(softmax.largest[head] - from);
        softmax.largest[head] = most;
        s[head] = exp2_fast(s[head] - from);
        s[head + 2] = exp2_fast(s[head + 2] - from);
        softmax.total[head] = softmax.total[head] * shrink[head] + (s[head] + s[head + 2]);
    }
}

/// Weights times the scales of values, of keys g and g + 8, in a unit that keeps them from
/// vanishing in f16. It is a power of two: a change of it changes no digits.
DEVICE void scale_weights(State &state, float s[4], float shrink[2], float low, float high) {
    const float unit = fmaxf(state.unit, power_of_two_below(max_over_keys(fmaxf(low, high))));
    const float inverse = inverse_power(unit);
#pragma unroll
    for (int i = 0; i < 4; i++) s[i] *= (i < 2 ? low : high) * inverse;
    shrink[0] *= state.unit * inverse;
    shrink[1] *= state.unit * inverse;
    state.unit = unit;
}

/// Adds a tile's values, whose weights are packed as pairs of heads.
DEVICE void add_values(State &state, const float shrink[2], const u32 packed[2], u32 values,
                       int lane) {
#pragma unroll
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int i = 0; i < 4; i++) state.sums[step][i] *= shrink[i % 2];
    const u32 weights[2] = {transposed(packed[0]), transposed(packed[1])};
    const auto address = [&](int row, int vector) { return values + swizzled(row, vector); };
    multiply_values<Page, STEPS>(state.sums, weights, address, lane);
}

// ---- The end: warps are merged, then splits.

/// Adds `some`, in which scores are counted from another largest one, and gives its weight.
DEVICE float add_stats(Stats &all, const Stats &some) {
    const float weight = all.largest == MINUS_INFINITY ? 0.0f
                                                       : exp2_fast(some.largest - all.largest);
    add_weighted(all, some, weight);
    return weight;
}

/// What the warps of a block have summed up, in shared memory.
struct WarpSums {
    /// [WARPS, HEADS, PITCH], [WARPS, HEADS]
    float *sums;
    Stats *stats;

    DEVICE WarpSums(u8 *shared)
        : sums((float *)shared), stats((Stats *)(sums + WARPS * HEADS * PITCH)) {}

    static const int BYTES = WARPS * HEADS * (PITCH * 4 + (int)sizeof(Stats));

    /// Puts a warp's sums where every warp can read them; `moved` comes off the sums of each head.
    DEVICE void put(const State &state, const float normed[2], const float moved[2], int warp,
                    int lane) const {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int head = warp * HEADS + lane % 4 * 2 + i;
            const Stats own = {state.softmax.largest[i], sum_over_keys(state.softmax.total[i]),
                               sum_over_keys(normed[i]), 0.0f};
            if (lane / 4 == 0) stats[head] = own;
#pragma unroll
            for (int step = 0; step < STEPS; step++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    sums[head * PITCH + number_of<Page>(step, half, lane)] =
                        (state.sums[step][2 * half + i] - moved[i]) * (SCALED ? state.unit : 1.0f);
        }
    }
};

template <typename Params>
DEVICE void write_out(const Params &p, i32 row, i32 head, int number, const float x[4]) {
    const u64 at = ((u64)row * p.layer.kv_heads * p.group + head) * HEAD_DIM + number;
    if (p.out_type == ACT_F32) store_four<float>((float *)p.out + at, x);
    else if (p.out_type == ACT_F16)
        *(uint2 *)((f16 *)p.out + at) = {pack<f16>(x[0], x[1]), pack<f16>(x[2], x[3])};
    else store_four<bf16>((bf16 *)p.out + at, x);
}

/// Whether the block's split of its row holds no keys: then all is done. The row of no sequence,
/// which has no splits, becomes zeros.
template <typename Params, typename Work>
DEVICE bool has_no_keys(const Params &p, const Work &work, int warp, int lane) {
    if ((i32)blockIdx.y < work.splits) return false;
    wait_for_inputs();
    const float zeros[4] = {};
    const bool writes = work.splits == 0 && blockIdx.y == 0 && 4 * lane < HEAD_DIM;
    for (int head = warp; writes && head < work.block.heads; head += WARPS)
        write_out(p, work.block.row, work.block.head + head, 4 * lane, zeros);
    return true;
}

/// Tiles of a warp: from this key on, one a round.
DEVICE i32 first_tile_of(i32 first, int warp) {
    return first / ROUND * ROUND + warp * TILE;
}
DEVICE i32 tiles_between(i32 start, i32 end) {
    return max(0, (end - start + ROUND - 1) / ROUND);
}

/// Index of a split's sums in `partials`, and of its `Stats` in what follows them.
template <typename Params> DEVICE u64 partial_of(const Params &p, i32 head, i32 split) {
    return ((u64)blockIdx.z * p.layer.kv_heads * p.group + head) * gridDim.y + split;
}
template <typename Params> DEVICE Stats *partial_stats(const Params &p) {
    const u64 partials = (u64)gridDim.z * p.layer.kv_heads * p.group * gridDim.y;
    return (Stats *)(p.partials + partials * HEAD_DIM);
}

/// Merges the warps' sums of one head: the result where there is one split, else its own.
template <typename Params>
DEVICE Stats merge_warps(const Params &p, const BlockHeads &block, i32 splits,
                         const WarpSums &warps, int head, int lane) {
    Stats all = no_stats();
    float weight[WARPS];
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++)
        all.largest = fmaxf(all.largest, warps.stats[warp * HEADS + head].largest);
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++)
        weight[warp] = add_stats(all, warps.stats[warp * HEADS + head]);
    const u64 partial = partial_of(p, block.head + head, blockIdx.y);
    const int number = 4 * lane;
    if (number < HEAD_DIM) {
        float x[4] = {};
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) {
            const float *from = warps.sums + (warp * HEADS + head) * PITCH + number;
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] += weight[warp] * from[i];
        }
        if (splits == 1) {
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] /= all.total;
            write_out(p, block.row, block.head + head, number, x);
        } else {
            store_four<float>(p.partials + partial * HEAD_DIM + number, x);
        }
    }
    if (1 < splits && lane == 0) partial_stats(p)[partial] = all;
    return all;
}

/// Whether this block is the last of its row and kv head; that one leaves the count at zero.
template <typename Params> DEVICE bool is_last_to_arrive(const Params &p, i32 splits) {
    __shared__ i32 is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        i32 *arrivals = p.arrivals + blockIdx.z * gridDim.x + blockIdx.x;
        is_last = atomicAdd(arrivals, 1) == splits - 1;
        if (is_last) *arrivals = 0;
        __threadfence();
    }
    __syncthreads();
    return is_last;
}

/// Merges the splits of one head, in their order.
template <typename Params>
DEVICE Stats merge_splits(const Params &p, i32 row, i32 splits, i32 head, int lane) {
    const u64 partial = partial_of(p, head, 0);
    const Stats *stats = partial_stats(p) + partial;
    Stats all = no_stats();
    for (int split = lane; split < splits; split += 32)
        all.largest = fmaxf(all.largest, load_fresh(&stats[split].largest));
    all.largest = warp_max(all.largest);
    float x[4] = {};
    const int number = 4 * lane;
    for (int start = 0; start < splits; start += 32) {
        const int count = min(32, splits - start);
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
            float sums[4];
            load_fresh_four(sums, p.partials + (partial + start + i) * HEAD_DIM + number);
#pragma unroll
            for (int j = 0; j < 4; j++) x[j] += split * sums[j];
        }
    }
    all.total = warp_sum(all.total);
    all.normed = warp_sum(all.normed);
#pragma unroll
    for (int j = 0; j < 4; j++) x[j] /= all.total;
    if (number < HEAD_DIM) write_out(p, row, head, number, x);
    return all;
}

/// Once all warps have put their sums: writes the rows' heads. done(head, stats) is called by one
/// lane when a head's softmax is known.
template <typename Params, typename Done>
DEVICE void merge(const Params &p, const BlockHeads &block, i32 splits, const WarpSums &warps,
                  int warp, int lane, Done done) {
    __syncthreads();
    for (int head = warp; head < block.heads; head += WARPS) {
        const Stats all = merge_warps(p, block, splits, warps, head, lane);
        if (splits == 1 && lane == 0) done(block.head + head, all);
    }
    if (splits == 1 || !is_last_to_arrive(p, splits)) return;
    for (int head = warp; head < block.heads; head += WARPS) {
        const Stats all = merge_splits(p, block.row, splits, block.head + head, lane);
        if (lane == 0) done(block.head + head, all);
    }
}
