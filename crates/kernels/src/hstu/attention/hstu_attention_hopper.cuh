// What the parts of HSTU attention on Hopper share: the launch's parameters, where things lie in
// shared memory, and how one warp that brings tiles and two warpgroups that sum them meet.
// To be included after hopper.cuh, with HEAD_DIM set.
//
// Roofline: 4 * HEAD_DIM operations per query and visible key; bound by the tensor cores.

struct HstuAttentionParams {
    /// Of the activations: boxes of 128 rows and HEAD_DIM / 64 chunks of 64 columns.
    TensorMap queries;
    /// Of one layer's side of the pages: [heads of pages, eights, chunks, 8 rows, 64 columns],
    /// where head h of page p is number `p * page_heads + h`. Boxes hold one head's rows of a page,
    /// or KEYS of them where they are more.
    TensorMap keys, values, live_keys, live_values;
    /// bf16 [tokens, heads * HEAD_DIM], `out_stride` from one row to the next.
    bf16 *out;
    /// f32 [parts, heads, ROWS, HEAD_DIM]: the sums of parts.
    float *partials;
    /// [tiles, 12]: seq, first row, rows, history begin and end, candidates begin and end; then the
    /// first tile of keys and the one behind the last, and where among `partials` its sums go, -1
    /// for those of all keys; two unused.
    const i32 *tiles;
    /// [tokens, 4]: history begin and end, candidates begin and end.
    const i32 *spans;
    /// [seqs, table_pages] and [seqs, live_table_pages].
    const i32 *block_tables, *live_tables;
    /// f32 [tokens], or null: `factor` for all.
    const float *row_factors;
    /// Two, zero before and after the launch.
    u32 *counters;
    i32 tokens, heads, tile_count, unused;
    i32 table_pages, live_table_pages;
    /// page_tokens is 1 << page_shift: 32, 64 or 128.
    i32 page_shift;
    /// Bytes from a page to the next by those of one head's rows of a side.
    i32 page_heads, live_page_heads;
    /// The chunk of 64 columns where the first head's queries start.
    i32 query_chunk;
    /// Whether the activations hold queries before SiLU.
    i32 activates;
    float alpha, factor;
    i32 out_stride;
};

static const int WARPGROUP = 128;
static const int THREADS = 3 * WARPGROUP;
static const int ROWS = 128;
static const int GROUP_ROWS = 64;
/// Keys of a tile: what the registers of a row's sums leave room for.
static const int KEYS = HEAD_DIM == 256 ? 64 : 128;
/// Tiles of keys, and of values, that shared memory has room for. Those of values are read last and
/// longest: one more of them is worth more than one of keys.
static const int KEY_STAGES = 2;
static const int VALUE_STAGES = 3;
/// Rows lie in shared memory in parts of 64 numbers, which are 128 bytes: queries part by part, and
/// keys and values in eights of rows, each part by part, so that one copy brings all of a page.
static const int PARTS = HEAD_DIM / 64;
static const int QUERY_PART_BYTES = ROWS * 128;
static const int PART_BYTES = 8 * 128;
static const int EIGHT_BYTES = PARTS * PART_BYTES;
static const int TILE_BYTES = KEYS / 8 * EIGHT_BYTES;
/// Columns of 8 keys, columns of 8 numbers.
static const int KEY_COLUMNS = KEYS / 8;
static const int COLUMNS = HEAD_DIM / 8;
/// Shared memory: queries, tiles of keys, tiles of values, what rows see, the item, barriers.
static const int KEYS_AT = PARTS * QUERY_PART_BYTES;
static const int VALUES_AT = KEYS_AT + KEY_STAGES * TILE_BYTES;
static const int SPANS_AT = VALUES_AT + VALUE_STAGES * TILE_BYTES;
static const int ITEM_AT = SPANS_AT + ROWS * 16;
static const int BARRIERS_AT = ITEM_AT + 64;
static const int SHARED_BYTES = BARRIERS_AT + 8 * (2 + 2 * (KEY_STAGES + VALUE_STAGES));

static_assert(SHARED_BYTES <= 227 * 1024, "shared memory of a block");

/// History, or candidates: what of them some rows of a tile see, and the tiles of keys it lies in.
struct Segment {
    i32 begin, end;

    DEVICE i32 first_tile() const { return begin / KEYS; }
    DEVICE i32 tiles() const { return begin < end ? (end + KEYS - 1) / KEYS - begin / KEYS : 0; }
};

/// One head of one tile of rows, and all of their keys or a part. All tiles of keys, those of the
/// history before those of the candidates, are numbered from 0; a part has `first` to `last`.
struct alignas(16) Item {
    /// No rows: there are no more items. Part -1: all of the keys.
    i32 rows, row, head, part;
    Segment history, live;
    i32 first, last, seq, unused;

    DEVICE bool is_live(i32 tile) const { return tile >= history.tiles(); }
    DEVICE i32 start_of(i32 tile) const {
        const i32 before = history.tiles();
        return KEYS * (tile < before ? history.first_tile() + tile
                                     : live.first_tile() + tile - before);
    }
};

/// The item in shared memory. Lanes pass it on to each other, which shows the compiler that they
/// have the same: what follows from it takes registers of the warp, not of each lane.
DEVICE Item read_item(const u8 *shared, int lane) {
    const i32 word = ((const i32 *)(shared + ITEM_AT))[lane % 12];
    Item item;
    item.rows = __shfl_sync(~0u, word, 0), item.row = __shfl_sync(~0u, word, 1);
    item.head = __shfl_sync(~0u, word, 2), item.part = __shfl_sync(~0u, word, 3);
    item.history = {__shfl_sync(~0u, word, 4), __shfl_sync(~0u, word, 5)};
    item.live = {__shfl_sync(~0u, word, 6), __shfl_sync(~0u, word, 7)};
    item.first = __shfl_sync(~0u, word, 8), item.last = __shfl_sync(~0u, word, 9);
    item.seq = __shfl_sync(~0u, word, 10);
    return item;
}

/// Where one side of the `count`-th tile of a block lies, and when it is there: `full` when it is
/// brought, `empty` when it is read.
template <int AT, int STAGES, int BARRIERS> struct Ring {
    u32 base;

    DEVICE u32 stage(u32 count) const { return count % STAGES; }
    DEVICE u32 tile(u32 count) const { return base + AT + stage(count) * TILE_BYTES; }
    DEVICE u32 full(u32 count) const { return base + BARRIERS + 8 * stage(count); }
    DEVICE u32 empty(u32 count) const { return full(count) + 8 * STAGES; }
    /// Parity of the phase in which the tile is brought.
    DEVICE u32 phase(u32 count) const { return count / STAGES % 2; }

    DEVICE void wait_full(u32 count) const { barrier_wait(full(count), phase(count)); }
    DEVICE void wait_empty(u32 count) const { barrier_wait(empty(count), phase(count) ^ 1); }
};

/// What those who bring and those who sum share.
struct Block {
    u8 *shared;
    u32 base;

    typedef Ring<KEYS_AT, KEY_STAGES, BARRIERS_AT + 16> Keys;
    typedef Ring<VALUES_AT, VALUE_STAGES, BARRIERS_AT + 16 + 16 * KEY_STAGES> Values;
    DEVICE Keys keys() const { return {base}; }
    DEVICE Values values() const { return {base}; }
    DEVICE u32 item_full() const { return base + BARRIERS_AT; }
    DEVICE u32 item_empty() const { return base + BARRIERS_AT + 8; }
    DEVICE void wait_item(u32 number) const { barrier_wait(item_full(), number % 2); }
    DEVICE void wait_no_item(u32 number) const { barrier_wait(item_empty(), number % 2 ^ 1); }

    /// One arrival announces what is brought; each of eight warps says when it has read a tile, and
    /// each of their lanes, and of the warp that brings values, when it has read the item.
    DEVICE void init() const {
        const u32 readers = 2 * WARPGROUP / 32;
        barrier_init(item_full(), 1);
        barrier_init(item_empty(), 2 * WARPGROUP + 32);
        for (u32 i = 0; i < KEY_STAGES; i++)
            barrier_init(keys().full(i), 1), barrier_init(keys().empty(i), readers);
        for (u32 i = 0; i < VALUE_STAGES; i++)
            barrier_init(values().full(i), 1), barrier_init(values().empty(i), readers);
        barriers_are_ready();
    }
};
