// ptx[80]: bf16_64 -DTILE=bf16 -DHEAD_DIM=64
// ptx[80]: bf16_128 -DTILE=bf16 -DHEAD_DIM=128
// ptx[80]: f16_64 -DTILE=f16 -DHEAD_DIM=64
// ptx[80]: f16_128 -DTILE=f16 -DHEAD_DIM=128
// ptx[80]: quantised_64 -DTILE=f16 -DHEAD_DIM=64 -DQUANTISED
// ptx[80]: quantised_128 -DTILE=f16 -DHEAD_DIM=128 -DQUANTISED
//
// As slot_chunk.cu, for GPUs other than Hopper: a block has 128 neighbouring rows of one chunk, and
// one head; see chunk_mma.cuh.
//
// Two warps bring a tile's keys with their positions, two its values. Half-width rows are copied
// while the tile before is worked on, a few with each step of its first product; quantised ones are
// copied as they are stored, and dequantised into the tile when that is free.
//
// A row meets slots in their order, and a tile that hides all its slots from a row changes none of
// its sums: what else is in the batch does not show in the result.
//
// Roofline: 4 * HEAD_DIM operations per query and visible slot; bound by the tensor cores.

#include "slots.cuh"

#include "chunk_softmax.cuh"

#include "slot_chunk.cuh"

typedef TILE Tile;
typedef TILE Query;

#include "chunk_mma.cuh"

static const int TILE_ROW_BYTES = ROW;
/// Of each side of a tile.
static const int BRINGERS = KEYS;

#include "slot_tiles.cuh"

#include "slot_chunk_rows.cuh"

/// Shared memory: queries; two tiles, or with QUANTISED one, the books and rows as they are stored;
/// positions of four tiles before these.
#ifdef QUANTISED
static const int STAGES = 1;
#else
static const int STAGES = 2;
#endif
static const int POSITION_STAGES = 4;
static const int STAGES_AT = ROWS * ROW;
static const int POSITIONS_AT = STAGES_AT + STAGES * 2 * SIDE;
static const int BOOKS_AT = POSITIONS_AT + POSITION_STAGES * sizeof(Positions);
static const int STORED_AT = BOOKS_AT + BOOK_NUMBERS * 4;

/// What a thread brings: slot `slot` of a tile's keys, or of its values.
struct Bringer {
    bool brings_keys;
    int slot;
};

/// Tiles in shared memory, which all threads of a block bring together.
struct TileRing {
    const SlotChunkParams &p;
    const Work &work;
    Bringer bringer;
    u32 base;
    Positions *positions;

    DEVICE TileRing(const SlotChunkParams &p, const Work &work, u8 *shared, const Bringer &bringer)
        : p(p), work(work), bringer(bringer), base(shared_address(shared)),
          positions((Positions *)(shared + POSITIONS_AT)) {}

    DEVICE u32 stage(i32 tile) const { return base + STAGES_AT + tile % STAGES * 2 * SIDE; }
    DEVICE u32 own_side(i32 tile) const { return stage(tile) + (bringer.brings_keys ? 0 : SIDE); }
    DEVICE Positions &positions_of(i32 tile) const { return positions[tile % POSITION_STAGES]; }

    /// What is left to do once a slot's row is in its tile, and its position known.
    DEVICE void finish(i32 tile, i32 position) const {
        const i32 slot = work.first + tile * KEYS + bringer.slot;
        const float by = work.seq.rotation.by(slot, position);
        if (__any_sync(~0u, by != 0.0f))
            rotate_rows(own_side(tile), work.seq.rotation, by, bringer.slot);
        write_positions(positions_of(tile), position, bringer.slot);
    }
};

#ifdef QUANTISED

/// Begins to copy a row, or dequantises it and begins to copy the next one.
struct BringRow {
    const TileRow &row, &next;
    u32 side, stored;
    int slot;
    const float *books;
    bool begins;

    template <int FORMAT> DEVICE void run() const {
        RowDecoder<FORMAT> decoder(stored, slot);
        if (begins) decoder.begin(row);
        else decoder.decode(side, row, next, books);
    }
};

struct Tiles : TileRing {
    const Side &stored_side;
    const float *books;
    /// Where stored rows of this side lie, values behind keys.
    u32 stored;
    SlotCursor at;
    /// Of the tile that is brought next.
    i32 position;
    TileRow row;

    DEVICE Tiles(const SlotChunkParams &p, const Work &work, u8 *shared, const Bringer &bringer)
        : TileRing(p, work, shared, bringer),
          stored_side(bringer.brings_keys ? p.layer.keys : p.layer.values),
          books((float *)(shared + BOOKS_AT)),
          stored(base + STORED_AT + (bringer.brings_keys ? 0 : KEYS * p.layer.keys.row_bytes)),
          at(first_slots(p, work, bringer.slot)), position(at.position),
          row(row_of_slot(stored_side, at.location)) {
        bring_row(row, 0, true);
        advance(at, p, work);
    }

    DEVICE void bring_row(const TileRow &next, u32 side, bool begins) const {
        with_format(stored_side.format,
                    BringRow{row, next, side, stored, bringer.slot, books, begins});
    }

    /// Brings a tile, and begins the next one. The one before is no longer read.
    DEVICE void bring(i32 tile) {
        const i32 now = position;
        __syncthreads();
        const TileRow next = row_of_slot(stored_side, at.location);
        bring_row(next, own_side(tile), false);
        row = next;
        position = at.position;
        advance(at, p, work);
        if (bringer.brings_keys) finish(tile, now);
        __syncthreads();
    }
    /// Beside the products of the tile before: nothing, since rows wait for their room.
    DEVICE void copy_part(i32, int) const {}
    DEVICE void find_rows(i32) const {}
};

#else

struct Tiles : TileRing {
    /// Of the slot that this thread brings next: where its row is, see `copy_rows`.
    i64 offset;
    /// The one after it, and its page.
    i32 slot, page;

    DEVICE Tiles(const SlotChunkParams &p, const Work &work, u8 *shared, const Bringer &bringer)
        : TileRing(p, work, shared, bringer), slot(work.first + bringer.slot),
          page(page_of_slot(p.layer, work.seq.table, slot, work.end)) {
        find_rows(0);
#pragma unroll
        for (int part = 0; part < STEPS; part++) copy_part(0, part);
        find_rows(1);
        copy_async_commit();
    }

    /// Waits for a tile. The one before is no longer read.
    DEVICE void bring(i32 tile) {
        copy_async_wait<0>();
        if (bringer.brings_keys) finish(tile, positions_of(tile).of_slot[bringer.slot]);
        __syncthreads();
    }

    /// Begins to copy some of a warp's 32 rows of a tile, beside the products of the one before.
    DEVICE void copy_part(i32 tile, int part) const {
        const int lane = threadIdx.x % 32;
        const u32 numbers = bringer.brings_keys ? p.layer.keys.numbers : p.layer.values.numbers;
        const u8 *rows = p.layer.pages + numbers + lane % COPY_LANES * 16;
        const u32 start = copy_start(own_side(tile) + bringer.slot / 32 * 32 * ROW, lane);
#pragma unroll
        for (int i = 0; i < 2; i++) copy_rows(start, rows, offset, 2 * part + i, lane);
    }

    /// Finds the rows of a tile before they are copied, and begins to copy their positions; pages
    /// are known a tile earlier.
    DEVICE void find_rows(i32 tile) {
        const SlotLocation location = locate_in_page(p.layer, work.kv_head, slot, page);
        offset = offset_of_row(p.layer, location);
        if (bringer.brings_keys) {
            i32 *to = &positions_of(tile).of_slot[bringer.slot];
            if (location.page) {
                copy_async_small<4>(shared_address(to), position_at(p.layer, location), true);
            } else {
                *to = -1;
            }
        }
        slot += KEYS;
        page = page_of_slot(p.layer, work.seq.table, slot, work.end);
    }
};

static_assert(2 * STEPS * COPY_ROWS == 32, "as many parts as products have steps");

#endif

DEVICE void attend(State &state, const SlotChunkParams &p, const Work &work, Tiles &tiles, i32 tile,
                   int warp, int lane) {
    const i32 position = work.seq.past + work.first_row + warp * 32;
    const HideSlots<POSITION_STAGES, 32> hide = {tiles.positions, position, p.window, lane};
    const bool hides = hide.any(tile);
    const float scale = work.seq.scale;
    float s[2][KEY_COLUMNS][4] = {}, shrink[2][2];
    score(s, tiles.base + warp * 32 * ROW, tiles.stage(tile), lane,
          [&](int step) { tiles.copy_part(tile + 1, step); });
    tiles.find_rows(tile + 2);
    copy_async_commit();
    if (hides) {
#pragma unroll
        for (int block = 0; block < 2; block++)
            HideSlots<POSITION_STAGES, 16>{tiles.positions, position + 16 * block, p.window, lane}(
                s[block], tile);
    }
    weigh(state, s, scale, shrink);
    shrink_sums(state, shrink);
    add_values(state, s, tiles.stage(tile) + SIDE, lane);
}

KERNEL __launch_bounds__(THREADS, 1) slot_chunk_mma(const __grid_constant__ SlotChunkParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    begin_block<THREADS>(p.layer, (float *)(shared + BOOKS_AT));
    // In shared memory: sums and scores leave no registers for it.
    __shared__ Work work;
    {
        Work found;
        if (!find_work(p, found)) return;
        if (threadIdx.x == 0) work = found;
        __syncthreads();
    }
    Tiles tiles(p, work, shared, {threadIdx.x < BRINGERS, (int)threadIdx.x % BRINGERS});
#pragma unroll 1
    for (int first = 0; first < ROWS; first += 32)
        bring_queries<32, THREADS>(p, work, tiles.base, first, threadIdx.x);
    State state = {};
#pragma unroll
    for (int i = 0; i < 4; i++) state.softmax[i / 2].largest[i % 2] = MINUS_INFINITY;
    for (i32 tile = 0; tile < work.tiles; tile++) {
        tiles.bring(tile);
        attend(state, p, work, tiles, tile, warp, lane);
    }
    copy_async_wait<0>();
    finish_rows(p, work, state.softmax[0], state.sums[0], warp * 32, lane);
    finish_rows(p, work, state.softmax[1], state.sums[1], warp * 32 + 16, lane);
}
