// ptx[90a]: bf16_64 -DPAGE=bf16 -DHEAD_DIM=64
// ptx[90a]: bf16_128 -DPAGE=bf16 -DHEAD_DIM=128
// ptx[90a]: f16_64 -DPAGE=f16 -DHEAD_DIM=64
// ptx[90a]: f16_128 -DPAGE=f16 -DHEAD_DIM=128
//
// As chunk.cu, with the products of Hopper: a block has 128 neighbouring rows of one chunk, and one
// head.
//
// One warpgroup copies tiles of 128 keys and values, two of each in shared memory; two others have
// 64 rows each and only compute. They begin their products in turns: while one weighs scores, the
// tensor cores have the scores and the values before from the other.
//
// A row meets tiles in the order of positions, from a multiple of 128 on, and one that hides all
// its keys from a row changes none of its sums: where a chunk began does not show in the result.
//
// Roofline: 4 * HEAD_DIM operations per query and visible key; bound by the tensor cores.

#include "hopper.cuh"

#include "chunk.cuh"

typedef PAGE Page;

static const int WARPGROUP = 128;
static const int THREADS = 3 * WARPGROUP;
static const int GROUP_ROWS = 64;
static const int KEYS = 128;
static const int STAGES = 2;
/// Rows lie in shared memory as parts of 64 numbers, which are 128 bytes.
static const int PARTS = HEAD_DIM / 64;
static const int PART_BYTES = 128 * 128;
static const int TILE_BYTES = PARTS * PART_BYTES;
/// Shared memory: queries, tiles of keys, tiles of values, barriers.
static const int KEYS_AT = TILE_BYTES;
static const int VALUES_AT = KEYS_AT + STAGES * TILE_BYTES;
static const int BARRIERS_AT = VALUES_AT + STAGES * TILE_BYTES;
/// Columns of 8 keys, columns of 8 numbers.
static const int KEY_COLUMNS = KEYS / 8;
static const int COLUMNS = HEAD_DIM / 8;

static_assert(ROWS == 128 && KEYS == 128, "a part has 128 rows");

// ---- Barriers: one for the queries, and two for each tile of shared memory.

struct Barriers {
    u32 at;
    DEVICE u32 queries() const { return at; }
    DEVICE u32 keys_full(int stage) const { return at + 8 * (1 + stage); }
    DEVICE u32 keys_empty(int stage) const { return at + 8 * (1 + STAGES + stage); }
    DEVICE u32 values_full(int stage) const { return at + 8 * (1 + 2 * STAGES + stage); }
    DEVICE u32 values_empty(int stage) const { return at + 8 * (1 + 3 * STAGES + stage); }
};

DEVICE void init(const Barriers &barriers) {
    const int computing_warps = 2 * WARPGROUP / 32;
    barrier_init(barriers.queries(), WARPGROUP);
    for (int stage = 0; stage < STAGES; stage++) {
        barrier_init(barriers.keys_full(stage), WARPGROUP);
        barrier_init(barriers.values_full(stage), WARPGROUP);
        barrier_init(barriers.keys_empty(stage), computing_warps);
        barrier_init(barriers.values_empty(stage), computing_warps);
    }
}
/// Parity of the phase in which a tile fills its place.
DEVICE u32 phase_of(i32 tile) {
    return tile / STAGES % 2;
}

// ---- The warpgroup that copies.

DEVICE u32 swizzled(int row, int chunk) {
    return chunk / 8 * PART_BYTES + row * 128 + ((chunk % 8 ^ row % 8) << 4);
}

DEVICE void load_queries(const ChunkParams &p, const Work &work, u32 shared, int thread) {
    const int chunks = HEAD_DIM / 8;
    for (int i = thread; i < ROWS * chunks; i += WARPGROUP) {
        const int row = i / chunks, chunk = i % chunks;
        const bool is_there = row < work.rows;
        const u64 at = is_there ? head_of_row(p, work, row) + chunk * 8 : 0;
        copy_async16(shared + swizzled(row, chunk), (const Page *)p.q + at, is_there);
    }
}

/// Where a key lies, in bytes from the first page's keys or values; -1 where no row sees it.
DEVICE i64 place_of(const ChunkParams &p, const Work &work, i32 position, i32 page) {
    const u32 offset = (u32)position % (u32)p.layer.page_tokens;
    const u64 row = row_in_page(p.layer, work.kv_head, offset);
    return page < 0 ? -1 : (i64)(page_start(p.layer, page) + row * (HEAD_DIM * sizeof(Page)));
}

/// The keys or the values of a warp's 32 keys of a tile; each lane knows the place of one. Eight
/// lanes copy 128 bytes of a row.
DEVICE void load_side(const u8 *side, u32 shared, i64 place, int thread) {
    const int warp = thread / 32, lane = thread % 32;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int in_warp = 4 * i + lane / 8, row = warp * 32 + in_warp;
        const i64 from = __shfl_sync(~0u, place, in_warp);
        const bool is_there = 0 <= from;
        const u8 *start = side + (is_there ? from + lane % 8 * 16 : 0);
#pragma unroll
        for (int part = 0; part < PARTS; part++)
            copy_async16(shared + swizzled(row, part * 8 + lane % 8),
                         start + (is_there ? part * 128 : 0), is_there);
    }
}

DEVICE void copy_tiles(const ChunkParams &p, const Work &work, const Barriers &barriers, u32 base,
                       int thread) {
    load_queries(p, work, base, thread);
    barrier_arrive_after_copies(barriers.queries());
    i32 key = work.first + thread;
    i32 page = page_of(p, work, key);
    for (i32 tile = 0; tile < work.tiles; tile++, key += KEYS) {
        const i64 place = place_of(p, work, key, page);
        page = page_of(p, work, key + KEYS);
        const int stage = tile % STAGES;
        barrier_wait(barriers.keys_empty(stage), phase_of(tile) ^ 1);
        load_side(p.layer.pages + p.layer.key_offset, base + KEYS_AT + stage * TILE_BYTES, place,
                  thread);
        barrier_arrive_after_copies(barriers.keys_full(stage));
        barrier_wait(barriers.values_empty(stage), phase_of(tile) ^ 1);
        load_side(p.layer.pages + p.layer.value_offset, base + VALUES_AT + stage * TILE_BYTES,
                  place, thread);
        barrier_arrive_after_copies(barriers.values_full(stage));
    }
}

// ---- The warpgroups that compute, 16 rows to a warp.

struct State {
    Softmax softmax;
    float sums[COLUMNS][4];
};

/// Begins the scores of a tile.
DEVICE void begin_scores(float (&s)[KEY_COLUMNS][4], u32 queries, u32 keys) {
#pragma unroll
    for (int step = 0; step < HEAD_DIM / 16; step++) {
        const u32 at = step / 4 * PART_BYTES + step % 4 * 32;
        multiply<Page>(s, tile_descriptor(queries + at, 0, 1024),
                       tile_descriptor(keys + at, 0, 1024), step > 0);
    }
    products_commit();
}

/// Begins to add the values of a tile.
DEVICE void begin_values(State &state, const u32 (&weights)[KEYS / 16][4], u32 values) {
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++)
        multiply_across<Page>(state.sums, weights[step],
                              tile_descriptor(values + step * 16 * 128, PART_BYTES, 1024));
    products_commit();
}

/// Weights as the left side of a product.
DEVICE void pack_weights(u32 (&weights)[KEYS / 16][4], const float (&s)[KEY_COLUMNS][4]) {
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *pair = s[2 * step + i / 2] + i % 2 * 2;
            weights[step][i] = pack<Page>(pair[0], pair[1]);
        }
}

/// A warpgroup's share of a block: 64 rows, the first at `position`.
struct Rows {
    int group;
    u32 queries;
    i32 position;
    /// Whether the other warpgroup has rows too.
    bool takes_turns;
};

DEVICE Rows rows_of(const Work &work, u32 base, int group) {
    return {group, base + group * GROUP_ROWS * 128, work.position + group * GROUP_ROWS,
            work.rows > GROUP_ROWS};
}
/// Waits until the other warpgroup has begun its products, and lets it begin the next ones.
DEVICE void take_turn(const Rows &rows) {
    if (rows.takes_turns) sync_some(1 + rows.group, 2 * WARPGROUP);
}
DEVICE void give_turn(const Rows &rows) {
    if (rows.takes_turns) arrive_some(1 + (rows.group ^ 1), 2 * WARPGROUP);
}

DEVICE void weigh_tile(State &state, float (&s)[KEY_COLUMNS][4], const ChunkParams &p,
                       const Rows &rows, i32 start, float shrink[2], int thread) {
    const bool hides_ahead = rows.position < start + KEYS - 1;
    const bool hides_behind = p.window > 0 && start <= rows.position + GROUP_ROWS - 1 - p.window;
    if (hides_ahead || hides_behind) {
        const i32 row = thread / 32 * 16 + thread % 32 / 4;
        hide(s, start + thread % 4 * 2, rows.position + row, p.window);
    }
    weigh(state.softmax, s, p.scale, shrink);
}

/// Waits for a copy that a product reads next, and gives its place back afterwards.
DEVICE void wait_for_tile(u32 barrier, i32 tile) {
    barrier_wait(barrier, phase_of(tile));
    fence_for_products();
}
DEVICE void release(u32 barrier, int thread) {
    if (thread % 32 == 0) barrier_arrive(barrier);
}

DEVICE void attend(State &state, const ChunkParams &p, const Work &work, const Rows &rows,
                   const Barriers &barriers, u32 base, int thread) {
    const u32 keys = base + KEYS_AT, values = base + VALUES_AT;
    float s[KEY_COLUMNS][4];
    u32 weights[KEYS / 16][4];
    float shrink[2];
    barrier_wait(barriers.queries(), 0);
    wait_for_tile(barriers.keys_full(0), 0);
    if (rows.group == 1) give_turn(rows);
    take_turn(rows);
    products_begin();
    begin_scores(s, rows.queries, keys);
    give_turn(rows);
    products_wait<0>();
    results_are_there(s);
    release(barriers.keys_empty(0), thread);
    weigh_tile(state, s, p, rows, work.first, shrink, thread);
    pack_weights(weights, s);
    for (i32 tile = 1; tile < work.tiles; tile++) {
        const int stage = tile % STAGES, before = (tile - 1) % STAGES;
        wait_for_tile(barriers.keys_full(stage), tile);
        take_turn(rows);
        products_begin();
        begin_scores(s, rows.queries, keys + stage * TILE_BYTES);
        wait_for_tile(barriers.values_full(before), tile - 1);
        products_begin();
        begin_values(state, weights, values + before * TILE_BYTES);
        give_turn(rows);
        products_wait<1>();
        results_are_there(s);
        release(barriers.keys_empty(stage), thread);
        weigh_tile(state, s, p, rows, work.first + tile * KEYS, shrink, thread);
        products_wait<0>();
        results_are_there(state.sums);
        release(barriers.values_empty(before), thread);
#pragma unroll
        for (int column = 0; column < COLUMNS; column++)
#pragma unroll
            for (int i = 0; i < 4; i++) state.sums[column][i] *= shrink[i / 2];
        pack_weights(weights, s);
    }
    const int last = (work.tiles - 1) % STAGES;
    wait_for_tile(barriers.values_full(last), work.tiles - 1);
    products_begin();
    begin_values(state, weights, values + last * TILE_BYTES);
    products_wait<0>();
    results_are_there(state.sums);
    // The other's last turn, so that as many are taken as given.
    if (rows.group == 0) take_turn(rows);
}

/// Lets the tiles pass by a warpgroup that has no rows.
DEVICE void pass(const Barriers &barriers, i32 tiles, int thread) {
    for (i32 tile = 0; tile < tiles; tile++) {
        const int stage = tile % STAGES;
        barrier_wait(barriers.keys_full(stage), phase_of(tile));
        release(barriers.keys_empty(stage), thread);
        barrier_wait(barriers.values_full(stage), phase_of(tile));
        release(barriers.values_empty(stage), thread);
    }
}

KERNEL __launch_bounds__(THREADS, 1) chunk_attention(const __grid_constant__ ChunkParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const u32 base = shared_address(shared);
    const Barriers barriers = {base + BARRIERS_AT};
    if (threadIdx.x == 0) init(barriers);
    wait_for_inputs();
    let_next_start();
    Work work;
    if (!find_work<KEYS>(p, work)) return;
    __syncthreads();
    if (warpgroup == 0) {
        give_registers<56>();
        copy_tiles(p, work, barriers, base, thread);
    } else {
        take_registers<224>();
        const int group = warpgroup - 1;
        const Rows rows = rows_of(work, base, group);
        if (work.rows <= group * GROUP_ROWS) return pass(barriers, work.tiles, thread);
        State state = {{{MINUS_INFINITY, MINUS_INFINITY}, {}}, {}};
        attend(state, p, work, rows, barriers, base, thread);
        const i32 first = group * GROUP_ROWS + thread / 32 * 16;
        write_rows(p, work, state.softmax, state.sums, 1.0f, first, thread % 32);
    }
}
