// ptx[90a]: bf16_64 -DTILE=bf16 -DHEAD_DIM=64
// ptx[90a]: bf16_128 -DTILE=bf16 -DHEAD_DIM=128
// ptx[90a]: f16_64 -DTILE=f16 -DHEAD_DIM=64
// ptx[90a]: f16_128 -DTILE=f16 -DHEAD_DIM=128
//
// How much a chunk attended to each replayed slot, with the products of Hopper: the sums of rows
// are known (replay_attend.cu), so a weight needs no other slot. A block has 256 slots and meets
// all queries that see one of them, tile by tile and head by head.
//
// One warpgroup copies tiles of 128 queries with the logarithms of their sums. Four others have 64
// slots each: while one turns scores to weights, the tensor cores have the scores of another. A
// slot's sum is made in one order.
//
// Roofline: 2 * HEAD_DIM operations and one power per query and slot; the tensor cores and the
// units for powers take the same time at a HEAD_DIM of 128.

#include "pages.cuh"

#include "hopper.cuh"

#include "chunk_softmax.cuh"

#include "replay.cuh"

typedef TILE Tile;

#include "chunk_hopper.cuh"

/// As in replay_plain.cu.
struct ReplayWeightsParams : ReplayStep {
    const float *log_sums;
    float *weights;
};

static const int COMPUTING_GROUPS = 4;
static const int COMPUTING = COMPUTING_GROUPS * WARPGROUP;
static const int BLOCK = COMPUTING + WARPGROUP;
static const u32 SLOTS = COMPUTING_GROUPS * GROUP_ROWS;
/// Warpgroups that bring a tile of keys each, before they compute.
static const int KEY_TILES = SLOTS / KEYS;
static const u32 QUERY_STAGES = 4;
/// Shared memory: keys, tiles of queries, the logarithms of their sums, barriers.
static const int QUERIES_AT = KEY_TILES * TILE_BYTES;
static const int LOG_SUMS_AT = QUERIES_AT + QUERY_STAGES * TILE_BYTES;
static const int QUERY_BARRIERS_AT = LOG_SUMS_AT + QUERY_STAGES * ROWS * 4;
static const int SHARED_BYTES = QUERY_BARRIERS_AT + 2 * QUERY_STAGES * 8;
static_assert(SHARED_BYTES <= 227 * 1024, "shared memory of a block");
/// Number of the barrier of those who compute.
static const int KEYS_ARE_THERE = 1;

struct QueryBarriers {
    u32 at;
    DEVICE u32 full(u32 stage) const { return at + 8 * stage; }
    DEVICE u32 empty(u32 stage) const { return at + 8 * (QUERY_STAGES + stage); }

    /// Copies and logarithms arrive; each warp says when it has read them.
    DEVICE void init() const {
        for (u32 stage = 0; stage < QUERY_STAGES; stage++) {
            barrier_init(full(stage), 2 * WARPGROUP);
            barrier_init(empty(stage), COMPUTING / 32);
        }
    }
};

/// What a block does: its slots, and the tokens that see one of them.
struct Work {
    u32 seq, kv_head, row, start;
    TokenSpan span;

    /// The same in every thread: each warp looks at all positions.
    DEVICE Work(const ReplayStep &p) {
        seq = blockIdx.z, kv_head = blockIdx.y, start = blockIdx.x * SLOTS;
        row = slot_row(p, seq, kv_head);
        i32 least = NOWHERE, most = -1;
#pragma unroll
        for (u32 i = 0; i < SLOTS / 32; i++) {
            const i32 position = position_of(p, row, start + 32 * i + threadIdx.x % 32);
            least = min(least, position);
            if (position != NOWHERE) most = max(most, position);
        }
        least = __reduce_min_sync(~0u, least), most = __reduce_max_sync(~0u, most);
        span = tokens_that_see(p, least, most);
    }
};

/// A tile of queries of one head; the heads of a tile come one after the other.
struct Item {
    u32 first, head, number;

    DEVICE Item(const Work &work) : first(work.span.begin / ROWS * ROWS), head(0), number(0) {}
    DEVICE void advance(u32 group) {
        number++;
        if (++head < group) return;
        head = 0;
        first += ROWS;
    }
    DEVICE u32 stage() const { return number % QUERY_STAGES; }
    /// Parity of the phase in which the stage is filled.
    DEVICE u32 phase() const { return number / QUERY_STAGES % 2; }
};

// ---- The warpgroup that copies queries.

/// The logarithm of the sum of a thread's query, in powers of two; an infinite one leaves no weight
/// to queries that are not there.
DEVICE float log_sum_of(const ReplayWeightsParams &p, const Work &work, const Item &item,
                        int thread) {
    const u32 token = item.first + thread, head = work.kv_head * p.group + item.head;
    if (token >= p.tokens) return INFINITE;
    return p.log_sums[row_of(p, work.seq, token) * p.heads + head] * LOG2_E;
}

DEVICE void copy_queries(const ReplayWeightsParams &p, const Work &work,
                         const QueryBarriers &barriers, u8 *shared, int thread) {
    Item item(work);
    float next = log_sum_of(p, work, item, thread);
    while (item.first < work.span.end) {
        const Item now = item;
        const float log_sum = next;
        item.advance(p.group);
        next = log_sum_of(p, work, item, thread);
        const u32 stage = now.stage(), head = work.kv_head * p.group + now.head;
        const Tile *query =
            (const Tile *)p.query + head_at(p, p.query_stride, work.seq, now.first, head);
        barrier_wait(barriers.empty(stage), now.phase() ^ 1);
        load_rows(shared_address(shared) + QUERIES_AT + stage * TILE_BYTES,
                  HeadRows<const Tile>{query, p.query_stride, (i32)(p.tokens - now.first)}, thread);
        barrier_arrive_after_copies(barriers.full(stage));
        ((float *)(shared + LOG_SUMS_AT))[stage * ROWS + thread] = log_sum;
        barrier_arrive(barriers.full(stage));
    }
}

// ---- The warpgroups that compute, 16 slots to a warp; a lane has slots g and g + 8.

/// A warpgroup brings 128 slots; those that hold no token come as zeros.
DEVICE void bring_keys(const ReplayWeightsParams &p, const Work &work, u32 base, int tile,
                       int thread) {
    const u8 *keys = (const u8 *)((const Tile *)p.keys + slot_at(p, work.row, 0));
    const u32 slot = work.start + tile * KEYS + thread;
    const i64 row = slot < p.filled ? (i64)slot * (HEAD_DIM * (i32)sizeof(Tile)) : -1;
    load_side(keys, base + tile * TILE_BYTES, row, thread);
    copy_async_commit();
    copy_async_wait<0>();
    fence_for_products();
}

/// Of a lane's two slots: where their tokens are, and the sums of their weights.
struct Weighing {
    i32 positions[2];
    float sums[2];
};

/// Whether all slots of a warp are seen by a tile of queries, the first of which is at `query`.
DEVICE bool sees_all(const Weighing &weighing, i32 query, u32 window) {
    const bool both = all_see(query, query + ROWS - 1, weighing.positions[0], window) &&
                      all_see(query, query + ROWS - 1, weighing.positions[1], window);
    return __all_sync(~0u, both);
}

/// Adds the weights of a tile. The lane's first column is of the query at `query`; `log_sums` begin
/// with it too.
template <bool HIDES>
DEVICE void add_tile(Weighing &weighing, const float (&s)[ROWS / 8][4], const float *log_sums,
                     float scale, i32 query, u32 window) {
#pragma unroll
    for (int column = 0; column < ROWS / 8; column++) {
        const float2 pair = *(const float2 *)(log_sums + 8 * column);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float weight = exp2_fast(s[column][i] * scale - (i % 2 ? pair.y : pair.x));
            const i32 position = weighing.positions[i / 2];
            if (!HIDES || sees(query + 8 * column + i % 2, position, window))
                weighing.sums[i / 2] += weight;
        }
    }
}

DEVICE void weigh_queries(Weighing &weighing, const ReplayWeightsParams &p, const Work &work,
                          const QueryBarriers &barriers, u8 *shared, int group, int thread) {
    const u32 base = shared_address(shared), lane = thread % 32;
    const u32 keys = base + group / 2 * TILE_BYTES + group % 2 * GROUP_ROWS * 128;
    const float scale = p.scale * LOG2_E;
    float s[ROWS / 8][4];
    for (Item item(work); item.first < work.span.end; item.advance(p.group)) {
        const u32 stage = item.stage();
        barrier_wait(barriers.full(stage), item.phase());
        fence_for_products();
        products_begin();
        begin_scores(s, keys, base + QUERIES_AT + stage * TILE_BYTES);
        products_wait<0>();
        results_are_there(s);
        const float *log_sums =
            (const float *)(shared + LOG_SUMS_AT) + stage * ROWS + lane % 4 * 2;
        const i32 first = p.position + (i32)item.first, query = first + (i32)lane % 4 * 2;
        if (sees_all(weighing, first, p.window)) {
            add_tile<false>(weighing, s, log_sums, scale, query, p.window);
        } else {
            add_tile<true>(weighing, s, log_sums, scale, query, p.window);
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(barriers.empty(stage));
    }
}

DEVICE void compute(const ReplayWeightsParams &p, const Work &work, const QueryBarriers &barriers,
                    u8 *shared, int group, int thread) {
    const u32 lane = thread % 32;
    const u32 slot = work.start + group * GROUP_ROWS + thread / 32 * 16 + lane / 4;
    Weighing weighing = {};
#pragma unroll
    for (u32 half = 0; half < 2; half++)
        weighing.positions[half] = position_of(p, work.row, slot + 8 * half);
    if (group < KEY_TILES) bring_keys(p, work, shared_address(shared), group, thread);
    sync_some(KEYS_ARE_THERE, COMPUTING);
    weigh_queries(weighing, p, work, barriers, shared, group, thread);
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        float sum = weighing.sums[half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        if (lane % 4 == 0 && slot + 8 * half < p.filled)
            p.weights[(u64)work.row * p.filled + slot + 8 * half] = sum / (float)p.group;
    }
}

/// Grid: tiles of slots, kv heads, sequences.
KERNEL __launch_bounds__(BLOCK, 1) replay_weights(const __grid_constant__ ReplayWeightsParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const QueryBarriers barriers = {shared_address(shared) + QUERY_BARRIERS_AT};
    if (threadIdx.x == 0) barriers.init();
    wait_for_inputs();
    let_next_start();
    const Work work(p);
    __syncthreads();
    if (warpgroup == COMPUTING_GROUPS) {
        copy_queries(p, work, barriers, shared, thread);
    } else {
        compute(p, work, barriers, shared, warpgroup, thread);
    }
}
