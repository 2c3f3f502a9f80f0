// ptx[90a]: bf16_64 -DTILE=bf16 -DHEAD_DIM=64
// ptx[90a]: bf16_128 -DTILE=bf16 -DHEAD_DIM=128
// ptx[90a]: f16_64 -DTILE=f16 -DHEAD_DIM=64
// ptx[90a]: f16_128 -DTILE=f16 -DHEAD_DIM=128
//
// Gradients of attention over replayed slots with the products of Hopper. A block has 128 slots of
// a kv head, which all queries of its heads meet, tile by tile: gradients of keys and values stay
// in registers, and are added to those in memory once.
//
// Two warpgroups have 64 slots each. Scores are computed with slots as rows and queries as columns,
// so that shares and gradients of scores are in registers as the left side of the products that
// they go into. Those of d_query sum over all slots: both warpgroups leave their gradients of
// scores in shared memory, and each takes a half of the product. What comes out is added to `sums`
// in global memory by the copy engine, as it lies in registers; replay_d_query sorts it.
//
// Blocks begin with different tiles, or all would add to the same one at the same time. So the
// order of a sum of d_query, and its last digits, are not the same each time.
//
// Roofline: 10 * HEAD_DIM operations per query and slot; bound by the tensor cores.

#include "pages.cuh"

#include "hopper.cuh"

#include "replay_products.cuh"

#include "replay.cuh"

typedef TILE Tile;

#include "replay_gradients.cuh"

static const u32 WARPGROUP = 128;
static const u32 THREADS = 3 * WARPGROUP;
static const u32 SLOTS = 128;
static const u32 STAGES = 2;
/// Of keys or values.
static const u32 PART_BYTES = SLOTS * 128;
static const u32 SIDE_BYTES = PARTS * PART_BYTES;
/// Gradients of scores, [slots, queries] in parts of 64 queries.
static const u32 D_SCORES_BYTES = QUERIES / 64 * PART_BYTES;
static const u32 STATS_BYTES = 2 * QUERIES * 4;
/// What a warpgroup adds to d_query of a tile.
static const u32 SUMS_BYTES = TILE_NUMBERS / 2 * 4;
/// Shared memory.
static const u32 VALUES_AT = SIDE_BYTES;
static const u32 QUERIES_AT = VALUES_AT + SIDE_BYTES;
static const u32 D_OUT_AT = QUERIES_AT + STAGES * IMAGE_BYTES;
static const u32 D_SCORES_AT = D_OUT_AT + STAGES * IMAGE_BYTES;
static const u32 SUMS_AT = D_SCORES_AT + STAGES * D_SCORES_BYTES;
static const u32 STATS_AT = SUMS_AT + 2 * SUMS_BYTES;
static const u32 BARRIERS_AT = STATS_AT + STAGES * STATS_BYTES;
static const u32 SHARED_BYTES = BARRIERS_AT + 4 * STAGES * 8;
static_assert(SHARED_BYTES <= 227 * 1024, "shared memory of a block");
/// Columns of eight queries, columns of eight numbers.
static const int QUERY_COLUMNS = QUERIES / 8;
static const int COLUMNS = HEAD_DIM / 8;
/// Numbers of barriers: of both warpgroups, and of each.
static const int BOTH = 1;
static const int EACH = 2;

struct Barriers {
    u32 at;
    DEVICE u32 queries_full(u32 stage) const { return at + 8 * stage; }
    DEVICE u32 d_out_full(u32 stage) const { return at + 8 * (STAGES + stage); }
    DEVICE u32 queries_empty(u32 stage) const { return at + 8 * (2 * STAGES + stage); }
    DEVICE u32 d_out_empty(u32 stage) const { return at + 8 * (3 * STAGES + stage); }

    /// One arrival announces what is brought; each warp says when it has read it.
    DEVICE void init() const {
        for (u32 stage = 0; stage < STAGES; stage++) {
            barrier_init(queries_full(stage), 1), barrier_init(d_out_full(stage), 1);
            barrier_init(queries_empty(stage), 2 * WARPGROUP / 32);
            barrier_init(d_out_empty(stage), 2 * WARPGROUP / 32);
        }
        barriers_are_ready();
    }
};

/// What a block does: its slots, and the tiles of queries that see one of them, in `count` steps.
struct Work {
    u32 seq, kv_head, row, start;
    u32 first_tile, tiles, count;

    /// The same in every thread: each warp looks at all positions.
    DEVICE Work(const ReplayGradientParams &p) {
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
        const TokenSpan span = tokens_that_see(p, least, most);
        first_tile = span.begin / QUERIES;
        tiles = span.begin < span.end ? (span.end + QUERIES - 1) / QUERIES - first_tile : 0;
        count = tiles * p.group;
    }
};

/// The heads' tiles in turn; a block begins where its number says.
struct Item {
    u32 head, tile, number;

    DEVICE Item(const Work &work) {
        const u32 first = blockIdx.x % work.count;
        head = first / work.tiles, tile = first % work.tiles, number = 0;
    }
    DEVICE void advance(const ReplayGradientParams &p, const Work &work) {
        number++;
        if (++tile < work.tiles) return;
        tile = 0;
        if (++head == p.group) head = 0;
    }
    DEVICE u32 stage() const { return number % STAGES; }
    /// Parity of the phase in which the stage is filled.
    DEVICE u32 phase() const { return number / STAGES % 2; }
    DEVICE u64 of(const ReplayGradientParams &p, const Work &work) const {
        return item_of(p, work.seq, work.kv_head * p.group + head, work.first_tile + tile);
    }
};

// ---- What is brought.

/// A warpgroup brings the block's keys or values; slots that hold no token come as zeros.
DEVICE void bring_side(const ReplayGradientParams &p, const Work &work, const void *side,
                       u32 shared, u32 thread) {
    const Tile *from = (const Tile *)side + slot_at(p, work.row, 0);
    for (u32 i = thread; i < SLOTS * HEAD_DIM / 8; i += WARPGROUP) {
        const u32 slot = i / (HEAD_DIM / 8), vector = i % (HEAD_DIM / 8);
        const bool is_there = work.start + slot < p.filled;
        const u64 at = is_there ? (u64)(work.start + slot) * HEAD_DIM + vector * 8 : 0;
        copy_async16(shared + swizzled(PART_BYTES, slot, vector), from + at, is_there);
    }
    copy_async_commit();
    copy_async_wait<0>();
    fence_for_products();
}

/// One thread.
DEVICE void bring_images(const ReplayGradientParams &p, const Work &work, const Barriers &barriers,
                         u32 base) {
    Item item(work);
    for (; item.number < work.count; item.advance(p, work)) {
        const u32 stage = item.stage();
        const u64 at = item.of(p, work);
        const u32 queries = barriers.queries_full(stage), d_out = barriers.d_out_full(stage);
        barrier_wait(barriers.queries_empty(stage), item.phase() ^ 1);
        barrier_expect(queries, IMAGE_BYTES + STATS_BYTES);
        copy_bulk(base + QUERIES_AT + stage * IMAGE_BYTES, p.query_images + at * IMAGE_BYTES,
                  IMAGE_BYTES, queries);
        copy_bulk(base + STATS_AT + stage * STATS_BYTES, p.stats + at * 2 * QUERIES, STATS_BYTES,
                  queries);
        barrier_wait(barriers.d_out_empty(stage), item.phase() ^ 1);
        barrier_expect(d_out, IMAGE_BYTES);
        copy_bulk(base + D_OUT_AT + stage * IMAGE_BYTES, p.d_out_images + at * IMAGE_BYTES,
                  IMAGE_BYTES, d_out);
    }
}

// ---- Products.

/// Of slots and queries, [64 slots, queries].
typedef float Scores[QUERY_COLUMNS][4];
/// The same as the left side of a product that sums over queries.
typedef u32 Packed[QUERIES / 16][4];

/// scores = slots * queries^T; `slots` begin with the warpgroup's.
DEVICE void begin_scores(Scores &scores, u32 slots, u32 queries) {
#pragma unroll
    for (u32 step = 0; step < HEAD_DIM / 16; step++) {
        const u32 part = step / 4, within = step % 4 * 32;
        multiply<Tile>(scores, tile_descriptor(slots + part * PART_BYTES + within, 0, 1024),
                       tile_descriptor(queries + part * QUERY_PART_BYTES + within, 0, 1024),
                       step > 0);
    }
    products_commit();
}

/// sums[64 slots, HEAD_DIM] += scores * rows of queries
DEVICE void begin_sums(float (&sums)[COLUMNS][4], const Packed &scores, u32 rows) {
#pragma unroll
    for (u32 step = 0; step < QUERIES / 16; step++)
        multiply_across<Tile>(sums, scores[step],
                              tile_descriptor(rows + step * 16 * 128, QUERY_PART_BYTES, 1024));
    products_commit();
}

/// The warpgroup's half of scores^T * keys: 64 queries, or 64 numbers of 64 queries.
DEVICE void begin_d_query(float (&sums)[8][4], u32 d_scores, u32 keys, u32 group) {
    if (QUERIES == 128) d_scores += group * PART_BYTES;
    else keys += group * PART_BYTES;
#pragma unroll
    for (u32 step = 0; step < SLOTS / 16; step++) {
        const u32 at = step * 16 * 128;
        multiply_both_across<Tile>(sums, tile_descriptor(d_scores + at, PART_BYTES, 1024),
                                   tile_descriptor(keys + at, PART_BYTES, 1024), step > 0);
    }
    products_commit();
}

// ---- The warpgroups that compute, 16 slots to a warp; a lane has slots g and g + 8.

struct Lane {
    u32 group, thread, warp, lane;
    i32 positions[2];

    DEVICE u32 slot(u32 half) const { return group * 64 + warp * 16 + lane / 4 + 8 * half; }
    /// The lane's first column.
    DEVICE u32 column() const { return lane % 4 * 2; }
};

DEVICE Lane lane_of(const ReplayGradientParams &p, const Work &work, u32 group, u32 thread) {
    Lane own = {group, thread, thread / 32, thread % 32, {}};
#pragma unroll
    for (u32 half = 0; half < 2; half++)
        own.positions[half] = position_of(p, work.row, work.start + own.slot(half));
    return own;
}

/// Hides slots from queries, the first of which is at `query`.
DEVICE void hide(Scores &scores, const Lane &own, i32 query, u32 window) {
    const bool all = all_see(query, query + QUERIES - 1, own.positions[0], window) &&
                     all_see(query, query + QUERIES - 1, own.positions[1], window);
    if (__all_sync(~0u, all)) return;
    query += own.column();
#pragma unroll
    for (int column = 0; column < QUERY_COLUMNS; column++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!sees(query + 8 * column + i % 2, own.positions[i / 2], window))
                scores[column][i] = MINUS_INFINITY;
}

/// Scores become shares; `log_sums` begin with the lane's first column, as `means`.
DEVICE void share_out(Scores &scores, const float *log_sums, float scale) {
#pragma unroll
    for (int column = 0; column < QUERY_COLUMNS; column++) {
        const float2 pair = *(const float2 *)(log_sums + 8 * column);
#pragma unroll
        for (int i = 0; i < 4; i++)
            scores[column][i] = exp2_fast(scores[column][i] * scale - (i % 2 ? pair.y : pair.x));
    }
}

/// Gradients of shares become those of scores.
DEVICE void weigh_gradients(Scores &gradients, const Scores &shares, const float *means) {
#pragma unroll
    for (int column = 0; column < QUERY_COLUMNS; column++) {
        const float2 pair = *(const float2 *)(means + 8 * column);
#pragma unroll
        for (int i = 0; i < 4; i++)
            gradients[column][i] =
                shares[column][i] * (gradients[column][i] - (i % 2 ? pair.y : pair.x));
    }
}

DEVICE void pack_scores(Packed &packed, const Scores &scores) {
#pragma unroll
    for (u32 step = 0; step < QUERIES / 16; step++)
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const float *pair = scores[2 * step + i / 2] + i % 2 * 2;
            packed[step][i] = pack<Tile>(pair[0], pair[1]);
        }
}

/// Leaves gradients of scores in shared memory, a row for each slot.
DEVICE void store_scores(u8 *shared, const Packed &packed, const Lane &own) {
#pragma unroll
    for (u32 step = 0; step < QUERIES / 16; step++)
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const u32 at = swizzled(PART_BYTES, own.slot(i % 2), 2 * step + i / 2);
            *(u32 *)(shared + at + own.lane % 4 * 4) = packed[step][i];
        }
}

/// Adds a warpgroup's sums to those in global memory, in the background.
DEVICE void add_d_query(float *to, u8 *shared, const float (&sums)[8][4], const Lane &own) {
#pragma unroll
    for (u32 i = 0; i < 8; i++)
        *(float4 *)(shared + (i * WARPGROUP + own.thread) * 16) = {sums[i][0], sums[i][1],
                                                                   sums[i][2], sums[i][3]};
    fence_for_products();
    sync_some(EACH + own.group, WARPGROUP);
    if (own.thread > 0) return;
    reduce_bulk(to, shared_address(shared), SUMS_BYTES);
    reduce_bulk_commit();
}

/// Each warp says when its products have read something.
DEVICE void release(u32 barrier, const Lane &own) {
    if (own.lane == 0) barrier_arrive(barrier);
}

struct Gradients {
    float keys[COLUMNS][4], values[COLUMNS][4];
};

/// Meets a tile of queries.
DEVICE void meet(Gradients &gradients, const ReplayGradientParams &p, const Work &work,
                 const Item &item, const Barriers &barriers, u8 *shared, const Lane &own) {
    const u32 stage = item.stage(), base = shared_address(shared);
    const u32 queries = base + QUERIES_AT + stage * IMAGE_BYTES;
    const u32 d_out = base + D_OUT_AT + stage * IMAGE_BYTES;
    const u32 own_slots = base + own.group * 64 * 128;
    const float *stats = (const float *)(shared + STATS_AT + stage * STATS_BYTES) + own.column();
    Scores scores, d_scores;
    Packed packed_shares, packed;
    barrier_wait(barriers.queries_full(stage), item.phase());
    products_begin();
    begin_scores(scores, own_slots, queries);
    barrier_wait(barriers.d_out_full(stage), item.phase());
    begin_scores(d_scores, own_slots + VALUES_AT, d_out);
    products_wait<1>();
    results_are_there(scores);
    const u32 token = (work.first_tile + item.tile) * QUERIES;
    hide(scores, own, p.position + (i32)token, p.window);
    share_out(scores, stats, p.scale * LOG2_E);
    pack_scores(packed_shares, scores);
    products_wait<0>();
    results_are_there(d_scores);
    weigh_gradients(d_scores, scores, stats + QUERIES);
    pack_scores(packed, d_scores);
    u8 *scores_at = shared + D_SCORES_AT + stage * D_SCORES_BYTES;
    store_scores(scores_at, packed, own);
    fence_for_products();
    products_begin();
    begin_sums(gradients.values, packed_shares, d_out);
    // Behind the barrier the scores of both are there, and the room of sums is free again. Scores
    // have two rooms: who is here has read those of the tile before the last.
    if (own.thread == 0) reduce_bulk_wait_read();
    sync_some(BOTH, 2 * WARPGROUP);
    float d_query[8][4];
    products_begin();
    begin_d_query(d_query, shared_address(scores_at), base, own.group);
    products_wait<1>();
    results_are_there(gradients.values);
    release(barriers.d_out_empty(stage), own);
    products_begin();
    begin_sums(gradients.keys, packed, queries);
    products_wait<1>();
    results_are_there(d_query);
    float *sums = p.sums + item.of(p, work) * TILE_NUMBERS + own.group * (TILE_NUMBERS / 2);
    add_d_query(sums, shared + SUMS_AT + own.group * SUMS_BYTES, d_query, own);
    products_wait<0>();
    results_are_there(gradients.keys);
    release(barriers.queries_empty(stage), own);
}

/// Adds to the gradients of the lane's two slots.
DEVICE void add_to_slots(float *slots, const float (&sums)[COLUMNS][4], float factor,
                         const ReplayGradientParams &p, const Work &work, const Lane &own) {
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        const u32 slot = work.start + own.slot(half);
        if (slot >= p.filled) continue;
        float *to = slots + slot_at(p, work.row, slot) + own.column();
#pragma unroll
        for (int column = 0; column < COLUMNS; column++) {
            float2 &pair = *(float2 *)(to + 8 * column);
            pair = {pair.x + sums[column][2 * half] * factor,
                    pair.y + sums[column][2 * half + 1] * factor};
        }
    }
}

DEVICE void compute(const ReplayGradientParams &p, const Work &work, const Barriers &barriers,
                    u8 *shared, u32 group, u32 thread) {
    const Lane own = lane_of(p, work, group, thread);
    Gradients gradients = {};
    Item item(work);
    for (; item.number < work.count; item.advance(p, work))
        meet(gradients, p, work, item, barriers, shared, own);
    if (thread == 0) reduce_bulk_wait();
    const float inverse = 1.0f / *p.factor;
    add_to_slots(p.d_keys, gradients.keys, p.scale * inverse, p, work, own);
    add_to_slots(p.d_values, gradients.values, inverse, p, work, own);
}

/// Grid: tiles of slots, kv heads, sequences.
KERNEL __launch_bounds__(THREADS, 1)
    replay_gradients(const __grid_constant__ ReplayGradientParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    // Passed on among lanes, to show the compiler that they have the same.
    const u32 warpgroup = __shfl_sync(~0u, threadIdx.x / WARPGROUP, 0);
    const u32 thread = threadIdx.x % WARPGROUP, base = shared_address(shared);
    const Barriers barriers = {base + BARRIERS_AT};
    if (threadIdx.x == 0) barriers.init();
    wait_for_inputs();
    let_next_start();
    const Work work(p);
    if (work.count == 0) return;
    if (warpgroup == 1) bring_side(p, work, p.keys, base, thread);
    if (warpgroup == 2) bring_side(p, work, p.values, base + VALUES_AT, thread);
    __syncthreads();
    if (warpgroup == 0) {
        give_registers<24>();
        if (thread == 0) bring_images(p, work, barriers, base);
    } else {
        take_registers<240>();
        compute(p, work, barriers, shared, warpgroup - 1, thread);
    }
}
