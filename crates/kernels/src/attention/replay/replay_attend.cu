// ptx[90a]: bf16_64 -DTILE=bf16 -DHEAD_DIM=64
// ptx[90a]: bf16_128 -DTILE=bf16 -DHEAD_DIM=128
// ptx[90a]: f16_64 -DTILE=f16 -DHEAD_DIM=64
// ptx[90a]: f16_128 -DTILE=f16 -DHEAD_DIM=128
//
// Attention of a chunk over replayed slots with the products of Hopper: a block has 128 queries of
// one head; see chunk_hopper.cuh.
//
// Slots are in no order. Before it begins, a block looks at all positions, a 128th of what it
// reads in all, and lists the tiles that one of its queries sees: others are not brought. In a
// cache that forgets, the chunk's own tokens lie scattered, some in most tiles; so the list says
// for every eight slots whether one is hidden from a query, and only those are compared.

#include "pages.cuh"

#include "hopper.cuh"

#include "chunk_softmax.cuh"

#include "replay.cuh"

typedef TILE Tile;

#include "chunk_hopper.cuh"

/// As in replay_plain.cu.
struct ReplayAttendParams : ReplayStep {
    Tile *out;
    float *log_sums;
    u32 out_stride;
};

/// Positions stay until a later tile's scores are there, when all have weighed this one.
static const int POSITION_STAGES = 4;
/// Behind the positions lies how many tiles there are, and behind that the list.
static const int COUNT_AT = MORE_AT + POSITION_STAGES * KEYS * 4;
static const int LIST_AT = COUNT_AT + 16;
/// Eights of a tile, of which those that hide a slot have a bit above the tile's number.
static const u32 EIGHTS = KEYS / 8;
static const u32 NOT_SEEN = ~0u;
static_assert(EIGHTS == 16, "half of an entry");

/// What a block does: `rows` queries of a head from `first` of the chunk on.
struct Work {
    u32 seq, head, slot_row, first;
    i32 rows, position;

    DEVICE Work(const ReplayStep &p) {
        seq = blockIdx.z;
        head = blockIdx.y * p.group + blockIdx.x % p.group;
        slot_row = ::slot_row(p, seq, blockIdx.y);
        first = blockIdx.x / p.group * ROWS;
        rows = min(ROWS, (i32)(p.tokens - first));
        position = p.position + (i32)first;
    }
};

// ---- The list of tiles.

/// An entry of a tile: its number, and the eights that hide something from a query.
DEVICE u32 look_at(const ReplayStep &p, const Work &work, u32 tile, u32 lane) {
    const i32 last = work.position + work.rows - 1;
    u32 is_seen = 0, eights = 0;
#pragma unroll
    for (u32 i = 0; i < KEYS / 32; i++) {
        const i32 position = position_of(p, work.slot_row, tile * KEYS + i * 32 + lane);
        is_seen |= __ballot_sync(~0u, some_sees(work.position, last, position, p.window));
        const u32 hidden = __ballot_sync(~0u, !all_see(work.position, last, position, p.window));
#pragma unroll
        for (u32 eight = 0; eight < 4; eight++)
            if (hidden >> 8 * eight & 0xff) eights |= 1u << (4 * i + eight);
    }
    return is_seen ? tile | eights << 16 : NOT_SEEN;
}

/// Leaves what is seen at the start of the list; one tile at least, since the loop over them counts
/// on it.
DEVICE u32 shorten(u32 *list, u32 tiles, u32 lane) {
    u32 count = 0;
    for (u32 start = 0; start < tiles; start += 32) {
        const u32 entry = start + lane < tiles ? list[start + lane] : NOT_SEEN;
        const u32 seen = __ballot_sync(~0u, entry != NOT_SEEN);
        if (entry != NOT_SEEN) list[count + __popc(seen & ((1u << lane) - 1))] = entry;
        count += __popc(seen);
        __syncwarp();
    }
    if (count == 0 && lane == 0) list[0] = 0xffffu << 16;
    return max(count, 1u);
}

/// All threads of the block.
DEVICE void make_list(const ReplayStep &p, const Work &work, u8 *shared) {
    u32 *list = (u32 *)(shared + LIST_AT);
    const u32 tiles = (p.filled + KEYS - 1) / KEYS, lane = threadIdx.x % 32;
    for (u32 tile = threadIdx.x / 32; tile < tiles; tile += THREADS / 32) {
        const u32 entry = look_at(p, work, tile, lane);
        if (lane == 0) list[tile] = entry;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        const u32 count = shorten(list, tiles, lane);
        if (lane == 0) *(u32 *)(shared + COUNT_AT) = count;
    }
    __syncthreads();
}

// ---- The warpgroup that brings tiles.

DEVICE void bring_tiles(const ReplayStep &p, const Work &work, const Barriers &barriers,
                        u8 *shared, i32 tiles, int thread) {
    const u32 base = shared_address(shared), *list = (const u32 *)(shared + LIST_AT);
    i32(*positions)[KEYS] = (i32(*)[KEYS])(shared + MORE_AT);
    const Tile *query = (const Tile *)p.query +
                        head_at(p, p.query_stride, work.seq, work.first, work.head);
    load_rows(base, HeadRows<const Tile>{query, p.query_stride, work.rows}, thread);
    barrier_arrive_after_copies(barriers.queries());
    const u8 *keys = (const u8 *)((const Tile *)p.keys + slot_at(p, work.slot_row, 0));
    const u8 *values = (const u8 *)((const Tile *)p.values + slot_at(p, work.slot_row, 0));
    const auto slot_of = [&](i32 tile) { return (list[tile] & 0xffff) * KEYS + thread; };
    i32 next = position_of(p, work.slot_row, slot_of(0));
    for (i32 tile = 0; tile < tiles; tile++) {
        const u32 slot = slot_of(tile);
        const i64 row = slot < p.filled ? (i64)slot * (HEAD_DIM * (i32)sizeof(Tile)) : -1;
        const i32 position = next;
        if (tile + 1 < tiles) next = position_of(p, work.slot_row, slot_of(tile + 1));
        const int stage = tile % STAGES;
        barrier_wait(barriers.keys_empty(stage), phase_of(tile) ^ 1);
        load_side(keys, base + KEYS_AT + stage * TILE_BYTES, row, thread);
        barrier_arrive_after_copies(barriers.keys_full(stage));
        positions[tile % POSITION_STAGES][thread] = position;
        barrier_arrive(barriers.keys_full(stage));
        barrier_wait(barriers.values_empty(stage), phase_of(tile) ^ 1);
        load_side(values, base + VALUES_AT + stage * TILE_BYTES, row, thread);
        barrier_arrive_after_copies(barriers.values_full(stage));
    }
}

// ---- The warpgroups that compute.

/// Hides slots by their positions; the lane's first row is at `position`.
struct HideSlots {
    const i32 (*positions)[KEYS];
    const u32 *list;
    i32 position;
    u32 window;
    int lane;

    DEVICE bool any(i32 tile) const { return list[tile] >> 16 != 0; }
    DEVICE void operator()(float (&s)[KEY_COLUMNS][4], i32 tile) const {
        const i32 *here = positions[tile % POSITION_STAGES] + lane % 4 * 2;
        const u32 eights = list[tile] >> 16;
#pragma unroll
        for (int column = 0; column < KEY_COLUMNS; column++) {
            if (!(eights >> column & 1)) continue;
            const int2 pair = *(const int2 *)(here + column * 8);
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (!sees(position + i / 2 * 8, i % 2 ? pair.y : pair.x, window))
                    s[column][i] = MINUS_INFINITY;
        }
    }
};

DEVICE i32 type_of(const f16 *) {
    return ACT_F16;
}
DEVICE i32 type_of(const bf16 *) {
    return ACT_BF16;
}

/// Writes the results of 16 rows from `first` on, and the logarithms of their sums. A row that saw
/// nothing has zeros, and an infinite sum, which leaves it no gradients.
DEVICE void finish_rows(const ReplayAttendParams &p, const Work &work, Softmax &softmax,
                        const float (&sums)[COLUMNS][4], i32 first, int lane) {
    const float ln_2 = 0.6931471805599453f;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float total = whole_total(softmax, half);
        const bool saw = total > 0.0f;
        const float log_sum = saw ? (softmax.largest[half] + log2f(total)) * ln_2 : INFINITE;
        if (!saw) softmax.total[half] = INFINITE;
        const i32 row = first + half * 8 + lane / 4;
        const u64 at = row_of(p, work.seq, work.first + row) * p.heads + work.head;
        if (row < work.rows && lane % 4 == 0) p.log_sums[at] = log_sum;
    }
    u16 *out = (u16 *)(p.out + head_at(p, p.out_stride, work.seq, work.first, work.head));
    write_rows(HeadRows<u16>{out, p.out_stride, work.rows}, type_of(p.out), softmax, sums, 1.0f,
               first, lane);
}

DEVICE void compute(const ReplayAttendParams &p, const Work &work, const Barriers &barriers,
                    u8 *shared, i32 tiles, int group, int thread) {
    if (work.rows <= group * GROUP_ROWS) return pass(barriers, tiles, thread);
    const u32 base = shared_address(shared);
    const i32 first = group * GROUP_ROWS + thread / 32 * 16, lane = thread % 32;
    State state = {{{MINUS_INFINITY, MINUS_INFINITY}, {}}, {}};
    const HideSlots hide = {(const i32(*)[KEYS])(shared + MORE_AT), (const u32 *)(shared + LIST_AT),
                            work.position + first + lane / 4, p.window, lane};
    attend(state, hide, p.scale * LOG2_E, tiles, half_of(work.rows, base, group), barriers, base,
           thread);
    finish_rows(p, work, state.softmax, state.sums, first, lane);
}

/// Grid: tiles of queries and heads that share a kv head, kv heads, sequences: blocks that run
/// together read the same slots.
KERNEL __launch_bounds__(THREADS, 1) replay_attend(const __grid_constant__ ReplayAttendParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const Barriers barriers = {shared_address(shared) + BARRIERS_AT};
    if (threadIdx.x == 0) init(barriers, WARPGROUP, 2 * WARPGROUP, WARPGROUP);
    wait_for_inputs();
    let_next_start();
    const Work work(p);
    make_list(p, work, shared);
    const i32 tiles = *(const u32 *)(shared + COUNT_AT);
    if (warpgroup == 0) {
        give_registers<56>();
        bring_tiles(p, work, barriers, shared, tiles, thread);
    } else {
        take_registers<224>();
        compute(p, work, barriers, shared, tiles, warpgroup - 1, thread);
    }
}
