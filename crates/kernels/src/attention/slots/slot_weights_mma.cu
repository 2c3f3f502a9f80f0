// ptx[80]: bf16_64 -DTILE=bf16 -DHEAD_DIM=64
// ptx[80]: bf16_128 -DTILE=bf16 -DHEAD_DIM=128
// ptx[80]: f16_64 -DTILE=f16 -DHEAD_DIM=64
// ptx[80]: f16_128 -DTILE=f16 -DHEAD_DIM=128
// ptx[80]: quantised_64 -DTILE=f16 -DHEAD_DIM=64 -DQUANTISED
// ptx[80]: quantised_128 -DTILE=f16 -DHEAD_DIM=128 -DQUANTISED
//
// As slot_weights.cu, for GPUs other than Hopper: a block has 128 slots, 32 to a warp, and meets
// all rows of their sequence in tiles of 64 queries, head by head. The next tile is copied while
// one is worked on. A slot's sum is made in one order, whatever else is in the batch.
//
// Roofline: 2 * HEAD_DIM operations and one power per query and slot.

#include "slots.cuh"

#include "chunk_softmax.cuh"

#include "slot_chunk.cuh"

typedef TILE Tile;
typedef TILE Query;

#include "chunk_mma.cuh"

static const int TILE_ROW_BYTES = ROW;
static const int BRINGERS = THREADS;

#include "slot_tiles.cuh"

static const int SLOTS = THREADS;
/// In `score` the slots are its rows, and the queries its keys.
static const int QUERY_ROWS = KEYS;

#include "slot_weigh_rows.cuh"

/// Shared memory: keys, two tiles of queries with the logarithms of their sums, positions, books.
/// Rows as they are stored lie where queries come later.
static const int QUERIES_AT = SLOTS * ROW;
static const int LOG_SUMS_AT = QUERIES_AT + 2 * SIDE;
static const int POSITIONS_AT = LOG_SUMS_AT + 2 * QUERY_ROWS * 4;
static const int BOOKS_AT = POSITIONS_AT + SLOTS * 4;

#ifdef QUANTISED
struct DecodeKeys {
    u32 keys, stored;
    const TileRow &row;
    const float *books;

    template <int FORMAT> DEVICE void run() const {
        RowDecoder<FORMAT> decoder(stored, threadIdx.x);
        decoder.begin(row);
        decoder.decode(keys, row, {}, books);
        copy_async_wait<0>();
    }
};
#endif

/// Brings the block's slots, one to a thread.
DEVICE void bring_keys(const SlotChunkParams &p, const Work &work, u8 *shared) {
    const u32 keys = shared_address(shared);
    const int thread = threadIdx.x;
    const i32 slot = work.first + thread;
    const i32 page = page_of_slot(p.layer, work.seq.table, slot, work.seq.filled);
    const SlotLocation location = locate_in_page(p.layer, work.kv_head, slot, page);
    const i32 position = load_position(p.layer, location);
    ((i32 *)(shared + POSITIONS_AT))[thread] = position_or_nowhere(position);
#ifdef QUANTISED
    const TileRow row = row_of_slot(p.layer.keys, location);
    const float *books = (const float *)(shared + BOOKS_AT);
    with_format(p.layer.keys.format, DecodeKeys{keys, keys + QUERIES_AT, row, books});
#else
    const int lane = thread % 32;
    const u8 *rows = p.layer.pages + p.layer.keys.numbers + lane % COPY_LANES * 16;
    const u32 start = copy_start(keys + thread / 32 * 32 * ROW, lane);
    const i64 offset = offset_of_row(p.layer, location);
#pragma unroll
    for (int i = 0; i < COPY_LANES; i++) copy_rows(start, rows, offset, i, lane);
    copy_async_commit();
    copy_async_wait<0>();
#endif
    const float by = work.seq.rotation.by(slot, position);
    if (__any_sync(~0u, by != 0.0f)) rotate_rows(keys, work.seq.rotation, by, thread);
}

/// Begins to copy a tile of queries, with the logarithms of their sums.
DEVICE void copy_queries(const SlotChunkParams &p, const Work &work, const Item &item, u8 *shared) {
    const int stage = item.number % 2, vectors = ROW / 16;
    const u32 to = shared_address(shared) + QUERIES_AT + stage * SIDE;
    const float *row = p.queries + (u64)(work.seq.row + item.first_row) * p.query_stride;
    const Tile *first =
        (const Tile *)(row + p.narrow_column) + (work.kv_head * p.group + item.head) * HEAD_DIM;
#pragma unroll
    for (int i = threadIdx.x; i < QUERY_ROWS * vectors; i += THREADS) {
        const int query = i / vectors, vector = i % vectors;
        const bool is_there = item.first_row + query < work.seq.live;
        const u64 at = is_there ? (u64)query * p.query_stride * 2 + vector * 8 : 0;
        copy_async16(to + swizzled(query, vector), first + at, is_there);
    }
    copy_async_commit();
    if (threadIdx.x < QUERY_ROWS)
        ((float *)(shared + LOG_SUMS_AT))[stage * QUERY_ROWS + threadIdx.x] =
            log_sum_of(p, work, item, threadIdx.x);
}

KERNEL __launch_bounds__(THREADS, 2) slot_weights_mma(const __grid_constant__ SlotChunkParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    begin_block<THREADS>(p.layer, (float *)(shared + BOOKS_AT));
    Work work;
    if (!find_work(p, work)) return;
    __syncthreads();
    bring_keys(p, work, shared);
    __syncthreads();
    const i32 *positions = (const i32 *)(shared + POSITIONS_AT);
    const int row = warp * 32 + lane / 4;
    Weighing weighing[2] = {begin_weighing(positions, row), begin_weighing(positions, row + 16)};
    const u32 base = shared_address(shared);
    Item item = {};
    copy_queries(p, work, item, shared);
    while (item.first_row < work.seq.live) {
        const Item now = item;
        item.advance(p.group);
        copy_async_wait<0>();
        __syncthreads();
        if (item.first_row < work.seq.live) copy_queries(p, work, item, shared);
        const int stage = now.number % 2;
        float s[2][KEY_COLUMNS][4] = {};
        score(s, base + warp * 32 * ROW, base + QUERIES_AT + stage * SIDE, lane, [](int) {});
        const float *log_sums = (const float *)(shared + LOG_SUMS_AT) + stage * QUERY_ROWS;
#pragma unroll
        for (int block = 0; block < 2; block++)
            add_tile(weighing[block], p, work.seq, s[block], log_sums, now.first_row, lane);
    }
    write_weights(p, work, weighing[0], row, lane);
    write_weights(p, work, weighing[1], row + 16, lane);
}
