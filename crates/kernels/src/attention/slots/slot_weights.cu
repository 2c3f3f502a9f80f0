// ptx[90a]: bf16_64 -DTILE=bf16 -DHEAD_DIM=64
// ptx[90a]: bf16_128 -DTILE=bf16 -DHEAD_DIM=128
// ptx[90a]: f16_64 -DTILE=f16 -DHEAD_DIM=64
// ptx[90a]: f16_128 -DTILE=f16 -DHEAD_DIM=128
// ptx[90a]: quantised_64 -DTILE=f16 -DHEAD_DIM=64 -DQUANTISED
// ptx[90a]: quantised_128 -DTILE=f16 -DHEAD_DIM=128 -DQUANTISED
//
// What chunks add to scores: the weights of a slot, summed over the rows of its sequence, the mean
// over the heads that share it. The rows' sums are known (slot_chunk.cu), so a weight needs
// no other slot: a block has 256 slots and meets all rows, tile by tile and head by head.
//
// One warpgroup copies tiles of 128 queries with the logarithms of their sums. Four others have 64
// slots each: while one turns scores to weights, the tensor cores have the scores of another. A
// slot's sum is made in one order, whatever else is in the batch.
//
// Roofline: 2 * HEAD_DIM operations and one power per query and slot; the tensor cores and the
// units for powers take the same time at a HEAD_DIM of 128.

#include "slots.cuh"

#include "hopper.cuh"

#include "chunk_softmax.cuh"

#include "slot_chunk.cuh"

typedef TILE Tile;

#include "chunk_hopper.cuh"

#include "slot_tiles.cuh"

static const int COMPUTING_GROUPS = 4;
static const int COMPUTING = COMPUTING_GROUPS * WARPGROUP;
static const int BLOCK = COMPUTING + WARPGROUP;
static const int SLOTS = COMPUTING_GROUPS * GROUP_ROWS;
/// Tiles of 128 slots, and of 128 queries.
static const int KEY_TILES = SLOTS / KEYS;
static const int QUERY_ROWS = ROWS;
static const int QUERY_STAGES = 4;
/// Shared memory: keys, tiles of queries, the logarithms of their sums, positions, barriers, books.
static const int QUERIES_AT = KEY_TILES * TILE_BYTES;
static const int LOG_SUMS_AT = QUERIES_AT + QUERY_STAGES * TILE_BYTES;
static const int POSITIONS_AT = LOG_SUMS_AT + QUERY_STAGES * ROWS * 4;
static const int QUERY_BARRIERS_AT = POSITIONS_AT + SLOTS * 4;
static const int BOOKS_AT = QUERY_BARRIERS_AT + 2 * QUERY_STAGES * 8;
/// Number of the barrier for those that wait for keys: queries need the room of quantised rows.
static const int KEYS_ARE_THERE = 1;
#ifdef QUANTISED
static const int WAIT_FOR_KEYS = BLOCK;
#else
static const int WAIT_FOR_KEYS = COMPUTING;
#endif

struct QueryBarriers {
    u32 at;
    DEVICE u32 full(int stage) const { return at + 8 * stage; }
    DEVICE u32 empty(int stage) const { return at + 8 * (QUERY_STAGES + stage); }
};

DEVICE void init(const QueryBarriers &barriers) {
    for (int stage = 0; stage < QUERY_STAGES; stage++) {
        // Copies, and logarithms; all lanes read those, and each says when it has.
        barrier_init(barriers.full(stage), 2 * WARPGROUP);
        barrier_init(barriers.empty(stage), COMPUTING);
    }
}

#include "slot_weigh_rows.cuh"

DEVICE int stage_of(const Item &item) {
    return item.number % QUERY_STAGES;
}
DEVICE u32 phase_of(const Item &item) {
    return item.number / QUERY_STAGES % 2;
}

// ---- The warpgroup that copies queries.

DEVICE void copy_queries(const SlotChunkParams &p, const Work &work, const QueryBarriers &barriers,
                         u8 *shared, int thread) {
    const u32 base = shared_address(shared);
    Item item = {};
    float next = log_sum_of(p, work, item, thread);
    while (item.first_row < work.seq.live) {
        const Item now = item;
        const float log_sum = next;
        item.advance(p.group);
        next = log_sum_of(p, work, item, thread);
        const int stage = stage_of(now);
        const i32 head = work.kv_head * p.group + now.head;
        const float *row = p.queries + (u64)(work.seq.row + now.first_row) * p.query_stride;
        const HeadRows<const Tile> queries = {
            (const Tile *)(row + p.narrow_column) + head * HEAD_DIM, (u64)p.query_stride * 2,
            work.seq.live - now.first_row};
        barrier_wait(barriers.empty(stage), phase_of(now) ^ 1);
        load_rows(base + QUERIES_AT + stage * TILE_BYTES, queries, thread);
        barrier_arrive_after_copies(barriers.full(stage));
        ((float *)(shared + LOG_SUMS_AT))[stage * ROWS + thread] = log_sum;
        barrier_arrive(barriers.full(stage));
    }
}

// ---- The warpgroups that compute, 16 slots to a warp.

#ifdef QUANTISED
struct DecodeKeys {
    u32 shared, stored;
    const TileRow &row;
    const float *books;
    int thread;

    template <int FORMAT> DEVICE void run() const {
        RowDecoder<FORMAT> decoder(stored, thread);
        decoder.begin(row);
        decoder.decode(shared, row, {}, books);
        copy_async_wait<0>();
    }
};
#endif

/// Brings 128 slots; as many warpgroups as there are tiles of keys do.
DEVICE void bring_keys(const SlotChunkParams &p, const Work &work, u8 *shared, int tile,
                       int thread) {
    const u32 at = shared_address(shared) + tile * TILE_BYTES;
    const i32 slot = work.first + tile * KEYS + thread;
    const i32 page = page_of_slot(p.layer, work.seq.table, slot, work.seq.filled);
    const SlotLocation location = locate_in_page(p.layer, work.kv_head, slot, page);
    const i32 position = load_position(p.layer, location);
    ((i32 *)(shared + POSITIONS_AT))[tile * KEYS + thread] = position_or_nowhere(position);
#ifdef QUANTISED
    const TileRow row = row_of_slot(p.layer.keys, location);
    const float *books = (const float *)(shared + BOOKS_AT);
    // Queries come only when keys are there.
    const u32 stored = shared_address(shared) + QUERIES_AT + tile * KEYS * p.layer.keys.row_bytes;
    with_format(p.layer.keys.format, DecodeKeys{at, stored, row, books, thread});
#else
    const i64 row = offset_of_row(p.layer, location);
    load_side(p.layer.pages + p.layer.keys.numbers, at, row, thread);
    copy_async_commit();
    copy_async_wait<0>();
#endif
    const float by = work.seq.rotation.by(slot, position);
    if (__any_sync(~0u, by != 0.0f)) rotate_rows(at, work.seq.rotation, by, thread);
    fence_for_products();
}

/// Sums all tiles of queries.
DEVICE void weigh_queries(Weighing &weighing, const SlotChunkParams &p, const Work &work,
                          const QueryBarriers &barriers, u8 *shared, int group, int thread) {
    const u32 base = shared_address(shared), queries = base + QUERIES_AT;
    const u32 keys = base + group / 2 * TILE_BYTES + group % 2 * GROUP_ROWS * 128;
    float s[ROWS / 8][4];
    for (Item item = {}; item.first_row < work.seq.live; item.advance(p.group)) {
        const int stage = stage_of(item);
        barrier_wait(barriers.full(stage), phase_of(item));
        fence_for_products();
        products_begin();
        begin_scores(s, keys, queries + stage * TILE_BYTES);
        products_wait<0>();
        results_are_there(s);
        const float *log_sums = (const float *)(shared + LOG_SUMS_AT) + stage * ROWS;
        add_tile(weighing, p, work.seq, s, log_sums, item.first_row, thread);
        barrier_arrive(barriers.empty(stage));
    }
}

DEVICE void compute(const SlotChunkParams &p, const Work &work, const QueryBarriers &barriers,
                    u8 *shared, int group, int thread) {
    const int lane = thread % 32, row = group * GROUP_ROWS + thread / 32 * 16 + lane / 4;
    const i32 *positions = (const i32 *)(shared + POSITIONS_AT);
    if (group < KEY_TILES) bring_keys(p, work, shared, group, thread);
    sync_some(KEYS_ARE_THERE, WAIT_FOR_KEYS);
    Weighing weighing = begin_weighing(positions, row);
    weigh_queries(weighing, p, work, barriers, shared, group, thread);
    write_weights(p, work, weighing, row, lane);
}

KERNEL __launch_bounds__(BLOCK, 1) slot_weights(const __grid_constant__ SlotChunkParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const QueryBarriers barriers = {shared_address(shared) + QUERY_BARRIERS_AT};
    if (threadIdx.x == 0) init(barriers);
    begin_block<BLOCK>(p.layer, (float *)(shared + BOOKS_AT));
    Work work;
    if (!find_work(p, work)) return;
    __syncthreads();
    if (warpgroup == COMPUTING_GROUPS) {
        if (WAIT_FOR_KEYS == BLOCK) sync_some(KEYS_ARE_THERE, BLOCK);
        copy_queries(p, work, barriers, shared, thread);
    } else {
        compute(p, work, barriers, shared, warpgroup, thread);
    }
}
