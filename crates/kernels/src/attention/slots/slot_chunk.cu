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

#include "slot_chunk_rows.cuh"

/// Positions stay until a later tile's scores are there, when all have weighed this one.
static const int POSITION_STAGES = 4;
// ---- The warpgroups that bring tiles.

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

DEVICE void compute(const SlotChunkParams &p, const Work &work, const Barriers &barriers, u32 base,
                    const Positions *positions, int group, int thread) {
    bring_queries<GROUP_ROWS, WARPGROUP>(p, work, base, group * GROUP_ROWS, thread);
    fence_for_products();
    barrier_arrive(barriers.queries());
    if (work.rows <= group * GROUP_ROWS) return pass(barriers, work.tiles, thread);
    State state = {{{MINUS_INFINITY, MINUS_INFINITY}, {}}, {}};
    const i32 position = work.seq.past + work.first_row + group * GROUP_ROWS;
    const HideSlots<POSITION_STAGES, GROUP_ROWS> hide = {positions, position, p.window, thread};
    const RowHalf half = half_of(work.rows, base, group);
    attend(state, hide, work.seq.scale, work.tiles, half, barriers, base, thread);
    const i32 first = group * GROUP_ROWS + thread / 32 * 16;
    finish_rows(p, work, state.softmax, state.sums, first, thread % 32);
}

static const int BLOCK = (2 + BRINGING_GROUPS) * WARPGROUP;

KERNEL __launch_bounds__(BLOCK, 1) slot_chunk(const __grid_constant__ SlotChunkParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const u32 base = shared_address(shared);
    const Barriers barriers = {base + BARRIERS_AT};
    Positions *positions = (Positions *)(shared + MORE_AT);
    if (threadIdx.x == 0) init(barriers, 2 * WARPGROUP, KEY_ARRIVALS, VALUE_ARRIVALS);
    float *books = (float *)(positions + POSITION_STAGES);
    begin_block<BLOCK>(p.layer, books);
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
