// ptx[90a]: bf16_64 -DTILE=bf16 -DHEAD_DIM=64
// ptx[90a]: bf16_128 -DTILE=bf16 -DHEAD_DIM=128
// ptx[90a]: f16_64 -DTILE=f16 -DHEAD_DIM=64
// ptx[90a]: f16_128 -DTILE=f16 -DHEAD_DIM=128
// ptx[90a]: quantised_64 -DTILE=f16 -DHEAD_DIM=64 -DQUANTISED
// ptx[90a]: quantised_128 -DTILE=f16 -DHEAD_DIM=128 -DQUANTISED
//
// Attention of chunks over slots that a policy chose: a block has 128 neighbouring rows of one
// chunk, and one head; see chunk_hopper.cuh. With QUANTISED, pages hold rows in any of the formats,
// and the warpgroups that bring tiles dequantise them to f16.
//
// Slots are in no order, so a tile of them comes with their positions. In a full cache most tokens
// are older than the chunk: a tile is hidden from no row unless its newest token is.
//
// A row meets slots in their order, and a tile that hides all its slots from a row changes none of
// its sums: what else is in the batch does not show in the result.

#include "slots.cuh"

#include "hopper.cuh"

#include "chunk_softmax.cuh"

#include "slot_chunk.cuh"

typedef TILE Tile;

#include "chunk_hopper.cuh"

#include "slot_tiles.cuh"

/// Positions stay until a later tile's scores are there, when all have weighed this one.
static const int POSITION_STAGES = 4;
/// A tile's positions, and for each warp that brought them the largest and the smallest.
struct Positions {
    i32 of_slot[KEYS];
    i32 most[KEYS / 32], least[KEYS / 32];
};

/// What a block does.
struct Work {
    SlotSeq seq;
    bool adds;
    i32 head, kv_head;
    i32 first_row, rows;
    /// Slots that some row may see, from the start of a tile on.
    i32 first, end, tiles;
};

DEVICE bool find_work(const SlotChunkParams &p, Work &work) {
    const i32 seq = p.tiles[2 * blockIdx.y];
    if (seq < 0) return false;
    work.seq = find_seq(p, seq);
    work.adds = adds_to_scores(p.rows.rules[seq]);
    work.head = blockIdx.x;
    work.kv_head = work.head / p.group;
    work.first_row = p.tiles[2 * blockIdx.y + 1];
    work.rows = min(ROWS, work.seq.live - work.first_row);
    const i32 position = work.seq.past + work.first_row;
    const bool has_start = work.seq.in_order && p.window > 0;
    work.first = has_start ? max(0, position - p.window + 1) / KEYS * KEYS : 0;
    work.end = work.seq.in_order ? position + work.rows : work.seq.filled;
    work.tiles = (work.end - work.first + KEYS - 1) / KEYS;
    return true;
}

/// The block's rows of results, [tokens, heads, HEAD_DIM].
template <typename T>
DEVICE HeadRows<T> rows_of(const SlotChunkParams &p, const Work &work, T *all) {
    const u64 heads = (u64)p.layer.kv_heads * p.group;
    const u64 row = work.seq.row + work.first_row;
    return {all + (row * heads + work.head) * HEAD_DIM, heads * HEAD_DIM, work.rows};
}

// ---- The warpgroups that bring tiles.

DEVICE void write_positions(Positions &to, i32 stored, int thread) {
    const i32 position = position_or_nowhere(stored);
    to.of_slot[thread] = position;
    const i32 most = warp_most(position), least = warp_least(position);
    if (thread % 32 == 0) {
        to.most[thread / 32] = most;
        to.least[thread / 32] = least;
    }
}

/// Places are known one tile ahead of their use, pages two. Positions are as they are stored: to
/// look at one is to wait for it.
struct SlotCursor {
    i32 slot, page;
    SlotLocation location;
    i32 position;
};

DEVICE void advance(SlotCursor &at, const SlotChunkParams &p, const Work &work) {
    at.location = locate_in_page(p.layer, work.kv_head, at.slot, at.page);
    at.position = load_position(p.layer, at.location);
    at.slot += KEYS;
    at.page = page_of_slot(p.layer, work.seq.table, at.slot, work.end);
}

DEVICE SlotCursor first_slots(const SlotChunkParams &p, const Work &work, int thread) {
    SlotCursor at;
    at.slot = work.first + thread;
    at.page = page_of_slot(p.layer, work.seq.table, at.slot, work.end);
    advance(at, p, work);
    return at;
}

#ifndef QUANTISED

DEVICE void bring_tiles(const SlotChunkParams &p, const Work &work, const Barriers &barriers,
                        u32 base, Positions *positions, int thread) {
    SlotCursor at = first_slots(p, work, thread);
    for (i32 tile = 0; tile < work.tiles; tile++) {
        const SlotLocation location = at.location;
        const i32 position = at.position;
        const i64 row = offset_of_row(p.layer, location);
        advance(at, p, work);
        const int stage = tile % STAGES;
        barrier_wait(barriers.keys_empty(stage), phase_of(tile) ^ 1);
        load_side(p.layer.pages + p.layer.keys.numbers, base + KEYS_AT + stage * TILE_BYTES, row,
                  thread);
        const float by = work.seq.rotation.by(work.first + tile * KEYS + thread, position);
        if (__any_sync(~0u, by != 0.0f)) {
            copy_async_commit();
            copy_async_wait<0>();
            rotate_rows(base + KEYS_AT + stage * TILE_BYTES, work.seq.rotation, by, thread);
            fence_for_products();
        }
        barrier_arrive_after_copies(barriers.keys_full(stage));
        write_positions(positions[tile % POSITION_STAGES], position, thread);
        barrier_arrive(barriers.keys_full(stage));
        barrier_wait(barriers.values_empty(stage), phase_of(tile) ^ 1);
        load_side(p.layer.pages + p.layer.values.numbers, base + VALUES_AT + stage * TILE_BYTES,
                  row, thread);
        barrier_arrive_after_copies(barriers.values_full(stage));
    }
}

/// Copies, and positions.
static const u32 KEY_ARRIVALS = 2 * WARPGROUP;
static const u32 VALUE_ARRIVALS = WARPGROUP;
static const int BRINGING_GROUPS = 1;
static const int BRINGING_REGISTERS = 80;
static const int COMPUTING_REGISTERS = 208;

#else

/// What one of the two warpgroups brings: keys with positions, or values.
struct BringSide {
    const SlotChunkParams &p;
    const Work &work;
    const Side &side;
    /// In shared memory: tiles, the first barrier of each kind, and room for rows as they are
    /// stored. Positions are null for values.
    u32 tiles, full, empty, stored;
    Positions *positions;
    const float *books;
    int thread;

    template <int FORMAT> DEVICE void run() const {
        SlotCursor at = first_slots(p, work, thread);
        TileRow row = row_of_slot(side, at.location);
        RowDecoder<FORMAT> decoder(stored, thread);
        decoder.begin(row);
        for (i32 tile = 0; tile < work.tiles; tile++) {
            const i32 position = at.position;
            advance(at, p, work);
            const TileRow next = row_of_slot(side, at.location);
            const int stage = tile % STAGES;
            barrier_wait(empty + 8 * stage, phase_of(tile) ^ 1);
            decoder.decode(tiles + stage * TILE_BYTES, row, next, books);
            if (positions) {
                const float by = work.seq.rotation.by(work.first + tile * KEYS + thread, position);
                if (__any_sync(~0u, by != 0.0f))
                    rotate_rows(tiles + stage * TILE_BYTES, work.seq.rotation, by, thread);
                write_positions(positions[tile % POSITION_STAGES], position, thread);
            }
            fence_for_products();
            barrier_arrive(full + 8 * stage);
            row = next;
        }
    }
};

DEVICE void bring_tiles(const SlotChunkParams &p, const Work &work, const Barriers &barriers,
                        u32 base, Positions *positions, const float *books, int thread,
                        bool brings_keys) {
    const u32 stored = shared_address(books + BOOK_NUMBERS);
    if (brings_keys) {
        with_format(p.layer.keys.format,
                    BringSide{p, work, p.layer.keys, base + KEYS_AT, barriers.keys_full(0),
                              barriers.keys_empty(0), stored, positions, books, thread});
    } else {
        const u32 behind = stored + KEYS * p.layer.keys.row_bytes;
        with_format(p.layer.values.format,
                    BringSide{p, work, p.layer.values, base + VALUES_AT, barriers.values_full(0),
                              barriers.values_empty(0), behind, nullptr, books, thread});
    }
}

static const u32 KEY_ARRIVALS = WARPGROUP;
static const u32 VALUE_ARRIVALS = WARPGROUP;
static const int BRINGING_GROUPS = 2;
static const int BRINGING_REGISTERS = 64;
static const int COMPUTING_REGISTERS = 192;

#endif

// ---- The warpgroups that compute.

/// Writes a warpgroup's queries to shared memory, and back for `slot_weights` if scores are added
/// to.
DEVICE void bring_queries(const SlotChunkParams &p, const Work &work, u32 shared, int group,
                          int thread) {
    const int vectors = HEAD_DIM / 8, times = GROUP_ROWS * vectors / WARPGROUP;
    const i32 column = work.head * HEAD_DIM + thread % vectors * 8;
    const auto row_of = [&](int i) {
        return group * GROUP_ROWS + (thread + i * WARPGROUP) / vectors;
    };
    const auto queries_of = [&](int row) {
        return p.queries + (u64)(work.seq.row + work.first_row + row) * p.query_stride;
    };
    float x[times][8] = {};
#pragma unroll
    for (int i = 0; i < times; i++)
        if (row_of(i) < work.rows) load8(x[i], queries_of(row_of(i)) + column);
#pragma unroll
    for (int i = 0; i < times; i++) {
        Vec16 narrowed;
#pragma unroll
        for (int word = 0; word < 4; word++)
            narrowed.word[word] = narrow_pair<Tile>(x[i][2 * word], x[i][2 * word + 1]);
        store_vector(shared + swizzled(row_of(i), thread % vectors), narrowed.word);
        if (work.adds && row_of(i) < work.rows)
            store16((Tile *)(queries_of(row_of(i)) + p.narrow_column) + column, narrowed);
    }
    fence_for_products();
}

/// `of_slot` begins at the lane's first slot, `row` is the position of its first row.
template <bool HAS_WINDOW>
DEVICE void hide_unseen(float (&s)[KEY_COLUMNS][4], const i32 *of_slot, i32 row, i32 window) {
#pragma unroll
    for (int column = 0; column < KEY_COLUMNS; column++) {
        const int2 pair = *(const int2 *)(of_slot + column * 8);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!is_seen<HAS_WINDOW>(i % 2 ? pair.y : pair.x, row + i / 2 * 8, window))
                s[column][i] = MINUS_INFINITY;
    }
}

/// Hides slots by their positions; the warpgroup's rows are at `position` and on.
struct HideSlots {
    const Positions *positions;
    i32 position, window;
    int thread;

    DEVICE bool any(i32 tile) const {
        const Positions &here = positions[tile % POSITION_STAGES];
        const i32 most = max(max(here.most[0], here.most[1]), max(here.most[2], here.most[3]));
        const i32 least = min(min(here.least[0], here.least[1]), min(here.least[2], here.least[3]));
        return position < most || (window > 0 && least <= position + GROUP_ROWS - 1 - window);
    }
    DEVICE void operator()(float (&s)[KEY_COLUMNS][4], i32 tile) const {
        const i32 *of_slot = positions[tile % POSITION_STAGES].of_slot + thread % 4 * 2;
        const i32 row = position + thread / 32 * 16 + thread % 32 / 4;
        if (window > 0) {
            hide_unseen<true>(s, of_slot, row, window);
        } else {
            hide_unseen<false>(s, of_slot, row, window);
        }
    }
};

DEVICE void write_log_sums(const SlotChunkParams &p, const Work &work, const Softmax &softmax,
                           i32 first, int lane) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float log_sum = softmax.largest[half] + log2_fast(whole_total(softmax, half));
        const i32 row = first + half * 8 + lane / 4;
        if (row < work.rows && lane % 4 == 0)
            *log_sum_at(p, work.seq.row + work.first_row + row, work.head) = log_sum;
    }
}

DEVICE void compute(const SlotChunkParams &p, const Work &work, const Barriers &barriers, u32 base,
                    const Positions *positions, int group, int thread) {
    bring_queries(p, work, base, group, thread);
    barrier_arrive(barriers.queries());
    if (work.rows <= group * GROUP_ROWS) return pass(barriers, work.tiles, thread);
    State state = {{{MINUS_INFINITY, MINUS_INFINITY}, {}}, {}};
    const i32 position = work.seq.past + work.first_row + group * GROUP_ROWS;
    const HideSlots hide = {positions, position, p.window, thread};
    const RowHalf half = half_of(work.rows, base, group);
    attend(state, hide, work.seq.scale, work.tiles, half, barriers, base, thread);
    const i32 first = group * GROUP_ROWS + thread / 32 * 16;
    if (work.adds) write_log_sums(p, work, state.softmax, first, thread % 32);
    if (p.out_is_f32) {
        const HeadRows<float> out = rows_of(p, work, (float *)p.out);
        write_rows(out, state.softmax, state.sums, 1.0f, first, thread % 32);
    } else {
        const HeadRows<bf16> out = rows_of(p, work, (bf16 *)p.out);
        write_rows(out, state.softmax, state.sums, 1.0f, first, thread % 32);
    }
}

static const int BLOCK = (2 + BRINGING_GROUPS) * WARPGROUP;

KERNEL __launch_bounds__(BLOCK, 1) slot_chunk(const __grid_constant__ SlotChunkParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const u32 base = shared_address(shared);
    const Barriers barriers = {base + BARRIERS_AT};
    Positions *positions = (Positions *)(shared + MORE_AT);
    if (threadIdx.x == 0) init(barriers, 2 * WARPGROUP, KEY_ARRIVALS, VALUE_ARRIVALS);
#ifdef QUANTISED
    float *books = (float *)(positions + POSITION_STAGES);
    copy_books(books, p.layer, threadIdx.x);
#endif
    wait_for_inputs();
    let_next_start();
    Work work;
    if (!find_work(p, work)) return;
    __syncthreads();
    if (warpgroup < BRINGING_GROUPS) {
        give_registers<BRINGING_REGISTERS>();
#ifdef QUANTISED
        bring_tiles(p, work, barriers, base, positions, books, thread, warpgroup == 0);
#else
        bring_tiles(p, work, barriers, base, positions, thread);
#endif
    } else {
        take_registers<COMPUTING_REGISTERS>();
        compute(p, work, barriers, base, positions, warpgroup - BRINGING_GROUPS, thread);
    }
}
