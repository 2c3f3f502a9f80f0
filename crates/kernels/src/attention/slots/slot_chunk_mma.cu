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
// while the tile before is worked on; quantised ones are copied as they are stored, and dequantised
// into the tile when that is free.
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
/// positions of two tiles before these.
#ifdef QUANTISED
static const int STAGES = 1;
#else
static const int STAGES = 2;
#endif
static const int POSITION_STAGES = 2;
static const int STAGES_AT = ROWS * ROW;
static const int POSITIONS_AT = STAGES_AT + STAGES * 2 * SIDE;
static const int BOOKS_AT = POSITIONS_AT + POSITION_STAGES * sizeof(Positions);
static const int STORED_AT = BOOKS_AT + BOOK_NUMBERS * 4;

/// What a thread brings: slot `slot` of a tile's keys, or of its values.
struct Bringer {
    bool brings_keys;
    int slot;
    /// Where the stored rows of its side lie, behind those of keys.
    u32 stored;
};

#ifdef QUANTISED

/// Begins to copy a row, or dequantises it and begins to copy the next one.
struct BringRow {
    const TileRow &row, &next;
    u32 side;
    const Bringer &bringer;
    const float *books;
    bool begins;

    template <int FORMAT> DEVICE void run() const {
        RowDecoder<FORMAT> decoder(bringer.stored, bringer.slot);
        if (begins) decoder.begin(row);
        else decoder.decode(side, row, next, books);
    }
};

#else

/// Copies a warp's 32 rows; each lane knows where one is.
DEVICE void load_side(const u8 *rows, u32 side, i64 offset, int slot) {
    const int vectors = ROW / 16, lane = slot % 32;
    // Not unrolled whole: addresses of all vectors would be kept in registers.
#pragma unroll 2
    for (int i = lane; i < 32 * vectors; i += 32) {
        const int in_warp = i / vectors, vector = i % vectors;
        const i64 from = __shfl_sync(~0u, offset, in_warp);
        const bool is_there = 0 <= from;
        copy_async16(side + swizzled(slot / 32 * 32 + in_warp, vector),
                     rows + (is_there ? from + vector * 16 : 0), is_there);
    }
}

#endif

/// Brings tile after tile; all threads of a block call it together.
struct Tiles {
    const SlotChunkParams &p;
    const Work &work;
    const Side &stored_side;
    Bringer bringer;
    u32 base;
    Positions *positions;
    const float *books;
    SlotCursor at;
    /// Of the tile that is brought next.
    i32 position;
#ifdef QUANTISED
    TileRow row;
#endif

    DEVICE Tiles(const SlotChunkParams &p, const Work &work, u8 *shared, const Bringer &bringer)
        : p(p), work(work), stored_side(bringer.brings_keys ? p.layer.keys : p.layer.values),
          bringer(bringer), base(shared_address(shared)),
          positions((Positions *)(shared + POSITIONS_AT)), books((float *)(shared + BOOKS_AT)),
          at(first_slots(p, work, bringer.slot)) {
        begin(0);
    }

    DEVICE u32 stage(i32 tile) const { return base + STAGES_AT + tile % STAGES * 2 * SIDE; }
    DEVICE u32 own_side(i32 tile) const { return stage(tile) + (bringer.brings_keys ? 0 : SIDE); }

    /// Begins to copy a tile.
    DEVICE void begin(i32 tile) {
        position = at.position;
#ifdef QUANTISED
        row = row_of_slot(stored_side, at.location);
        with_format(stored_side.format, BringRow{row, row, 0, bringer, books, true});
#else
        load_side(p.layer.pages + stored_side.numbers, own_side(tile),
                  offset_of_row(p.layer, at.location), bringer.slot);
        copy_async_commit();
#endif
        advance(at, p, work);
    }

    /// Waits for a tile, and begins the next one. The one before is no longer read.
    DEVICE void bring(i32 tile) {
        const i32 now = position;
#ifdef QUANTISED
        __syncthreads();
        const TileRow next = row_of_slot(stored_side, at.location);
        with_format(stored_side.format, BringRow{row, next, own_side(tile), bringer, books, false});
        row = next;
        position = at.position;
        advance(at, p, work);
#else
        copy_async_wait<0>();
#endif
        if (bringer.brings_keys) {
            const i32 slot = work.first + tile * KEYS + bringer.slot;
            const float by = work.seq.rotation.by(slot, now);
            if (__any_sync(~0u, by != 0.0f))
                rotate_rows(own_side(tile), work.seq.rotation, by, bringer.slot);
            write_positions(positions[tile % POSITION_STAGES], now, bringer.slot);
        }
        __syncthreads();
#ifndef QUANTISED
        if (tile + 1 < work.tiles) begin(tile + 1);
#endif
    }
};

DEVICE void attend(State &state, const SlotChunkParams &p, const Work &work, const Tiles &tiles,
                   i32 tile, int warp, int lane) {
    const i32 position = work.seq.past + work.first_row + warp * 32;
    const HideSlots<POSITION_STAGES, 32> hide = {tiles.positions, position, p.window, lane};
    const bool hides = hide.any(tile);
    const float scale = work.seq.scale;
    float s[2][KEY_COLUMNS][4] = {}, shrink[2][2];
    score(s, tiles.base + warp * 32 * ROW, tiles.stage(tile), lane);
#pragma unroll
    for (int block = 0; block < 2; block++) {
        const HideSlots<POSITION_STAGES, 16> hide_block = {tiles.positions, position + 16 * block,
                                                           p.window, lane};
        if (hides) hide_block(s[block], tile);
        raise_largest(state.softmax[block], s[block], scale, shrink[block]);
        weigh(state.softmax[block], s[block], scale, shrink[block]);
    }
    shrink_sums(state, shrink);
    add_values(state, s, tiles.stage(tile) + SIDE, lane);
}

KERNEL __launch_bounds__(THREADS, 1) slot_chunk_mma(const __grid_constant__ SlotChunkParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#ifdef QUANTISED
    for (int i = threadIdx.x; i < BOOK_NUMBERS; i += THREADS)
        copy_books((float *)(shared + BOOKS_AT), p.layer, i);
#endif
    wait_for_inputs();
    let_next_start();
    // In shared memory: sums and scores leave no registers for it.
    __shared__ Work work;
    {
        Work found;
        if (!find_work(p, found)) return;
        if (threadIdx.x == 0) work = found;
        __syncthreads();
    }
    const bool brings_keys = threadIdx.x < BRINGERS;
    const u32 behind = brings_keys ? 0 : KEYS * p.layer.keys.row_bytes;
    const u32 stored = shared_address(shared) + STORED_AT + behind;
    Tiles tiles(p, work, shared, {brings_keys, (int)threadIdx.x % BRINGERS, stored});
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
    finish_rows(p, work, state.softmax[0], state.sums[0], warp * 32, lane);
    finish_rows(p, work, state.softmax[1], state.sums[1], warp * 32 + 16, lane);
}
