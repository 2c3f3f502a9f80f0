// What the kernels for chunks on Hopper have in common: how tiles come and go, and the loop over
// them. To be included after hopper.cuh and chunk_softmax.cuh, with `Tile` (the numbers that are
// multiplied) and HEAD_DIM set.
//
// One warpgroup brings tiles of 128 keys and values, two of each in shared memory; two others have
// 64 rows each and only compute. They begin their products in turns: while one weighs scores, the
// tensor cores have the scores and the values before from the other.
//
// Roofline: 4 * HEAD_DIM operations per query and visible key; bound by the tensor cores.

static const int WARPGROUP = 128;
static const int THREADS = 3 * WARPGROUP;
static const int GROUP_ROWS = 64;
static const int KEYS = 128;
static const int STAGES = 2;
/// Rows lie in shared memory in parts of 64 numbers, which are 128 bytes.
static const int PARTS = HEAD_DIM / 64;
static const int PART_BYTES = 128 * 128;
static const int TILE_BYTES = PARTS * PART_BYTES;
static const int TILE_ROW_BYTES = 128;
/// Threads that bring a tile.
static const int BRINGERS = WARPGROUP;
/// Shared memory: queries, tiles of keys, tiles of values, barriers, and what the kernel adds.
static const int KEYS_AT = TILE_BYTES;
static const int VALUES_AT = KEYS_AT + STAGES * TILE_BYTES;
static const int BARRIERS_AT = VALUES_AT + STAGES * TILE_BYTES;
static const int MORE_AT = BARRIERS_AT + 128;
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

/// Arrivals when a tile is there.
DEVICE void init(const Barriers &barriers, u32 queries, u32 keys, u32 values) {
    barrier_init(barriers.queries(), queries);
    for (int stage = 0; stage < STAGES; stage++) {
        barrier_init(barriers.keys_full(stage), keys);
        barrier_init(barriers.values_full(stage), values);
        barrier_init(barriers.keys_empty(stage), 2 * WARPGROUP);
        barrier_init(barriers.values_empty(stage), 2 * WARPGROUP / 32);
    }
}

/// Parity of the phase in which a tile fills its buffer.
DEVICE u32 phase_of(i32 tile) {
    return tile / STAGES % 2;
}

// ---- The warpgroup that copies.

DEVICE u32 swizzled(int row, int vector) {
    return vector / 8 * PART_BYTES + row * 128 + ((vector % 8 ^ row % 8) << 4);
}

/// Copies a tile of rows in the background; rows that are not there come as zeros.
DEVICE void load_rows(u32 shared, const HeadRows<const Tile> &from, int thread) {
    const int vectors = HEAD_DIM / 8;
    for (int i = thread; i < ROWS * vectors; i += WARPGROUP) {
        const int row = i / vectors, vector = i % vectors;
        const bool is_there = row < from.rows;
        const u64 at = is_there ? row * from.stride + vector * 8 : 0;
        copy_async16(shared + swizzled(row, vector), from.first + at, is_there);
    }
}

/// The keys or the values of a warp's 32 keys of a tile; each lane knows where one is. Eight
/// lanes copy 128 bytes of a row.
DEVICE void load_side(const u8 *side, u32 shared, i64 location, int thread) {
    const int warp = thread / 32, lane = thread % 32;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int in_warp = 4 * i + lane / 8, row = warp * 32 + in_warp;
        const i64 from = __shfl_sync(~0u, location, in_warp);
        const bool is_there = 0 <= from;
        const u8 *start = side + (is_there ? from + lane % 8 * 16 : 0);
#pragma unroll
        for (int part = 0; part < PARTS; part++)
            copy_async16(shared + swizzled(row, part * 8 + lane % 8),
                         start + (is_there ? part * 128 : 0), is_there);
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
        multiply<Tile>(s, tile_descriptor(queries + at, 0, 1024),
                       tile_descriptor(keys + at, 0, 1024), step > 0);
    }
    products_commit();
}

/// Begins to add the values of a tile.
DEVICE void begin_values(State &state, const u32 (&weights)[KEYS / 16][4], u32 values) {
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++)
        multiply_across<Tile>(state.sums, weights[step],
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
            weights[step][i] = pack<Tile>(pair[0], pair[1]);
        }
}

DEVICE void shrink_sums(State &state, const float shrink[2]) {
#pragma unroll
    for (int column = 0; column < COLUMNS; column++)
#pragma unroll
        for (int i = 0; i < 4; i++) state.sums[column][i] *= shrink[i / 2];
}

/// A warpgroup's half of a block: 64 rows.
struct RowHalf {
    int group;
    u32 queries;
    /// Whether the other warpgroup has rows too.
    bool takes_turns;
};

DEVICE RowHalf half_of(i32 rows, u32 base, int group) {
    return {group, base + group * GROUP_ROWS * 128, rows > GROUP_ROWS};
}
/// Waits until the other warpgroup has begun its products, and lets it begin the next ones.
DEVICE void take_turn(const RowHalf &half) {
    if (half.takes_turns) sync_some(1 + half.group, 2 * WARPGROUP);
}
DEVICE void give_turn(const RowHalf &half) {
    if (half.takes_turns) arrive_some(1 + (half.group ^ 1), 2 * WARPGROUP);
}

/// Waits for a copy that a product reads next, and gives its buffer back afterwards.
DEVICE void wait_for_tile(u32 barrier, i32 tile) {
    barrier_wait(barrier, phase_of(tile));
    fence_for_products();
}
/// Each thread for itself: it may have read what lies beside keys.
DEVICE void release_keys(const Barriers &barriers, int stage) {
    barrier_arrive(barriers.keys_empty(stage));
}
/// One for its warp, since only products read values.
DEVICE void release_values(const Barriers &barriers, int stage, int thread) {
    if (thread % 32 == 0) barrier_arrive(barriers.values_empty(stage));
}

/// `hide(s, tile)` hides the scores of a tile that rows do not see, if `hide.any(tile)`.
template <typename Hide>
DEVICE void attend(State &state, const Hide &hide, float scale, i32 tiles, const RowHalf &half,
                   const Barriers &barriers, u32 base, int thread) {
    const u32 keys = base + KEYS_AT, values = base + VALUES_AT;
    float s[KEY_COLUMNS][4];
    u32 weights[KEYS / 16][4];
    float shrink[2];
    barrier_wait(barriers.queries(), 0);
    wait_for_tile(barriers.keys_full(0), 0);
    if (half.group == 1) give_turn(half);
    take_turn(half);
    products_begin();
    begin_scores(s, half.queries, keys);
    give_turn(half);
    const bool hides = hide.any(0);
    products_wait<0>();
    results_are_there(s);
    release_keys(barriers, 0);
    if (hides) hide(s, 0);
    raise_largest(state.softmax, s, scale, shrink);
    weigh(state.softmax, s, scale, shrink);
    pack_weights(weights, s);
    for (i32 tile = 1; tile < tiles; tile++) {
        const int stage = tile % STAGES, before = (tile - 1) % STAGES;
        wait_for_tile(barriers.keys_full(stage), tile);
        take_turn(half);
        products_begin();
        begin_scores(s, half.queries, keys + stage * TILE_BYTES);
        wait_for_tile(barriers.values_full(before), tile - 1);
        products_begin();
        begin_values(state, weights, values + before * TILE_BYTES);
        give_turn(half);
        const bool hides = hide.any(tile);
        products_wait<1>();
        results_are_there(s);
        release_keys(barriers, stage);
        if (hides) hide(s, tile);
        raise_largest(state.softmax, s, scale, shrink);
        weigh(state.softmax, s, scale, shrink);
        const bool shrinks = __any_sync(~0u, shrink[0] != 1.0f || shrink[1] != 1.0f);
        products_wait<0>();
        results_are_there(state.sums);
        release_values(barriers, before, thread);
        // Most tiles hold no new largest score; then there is nothing to scale.
        if (shrinks) shrink_sums(state, shrink);
        pack_weights(weights, s);
    }
    const int last = (tiles - 1) % STAGES;
    wait_for_tile(barriers.values_full(last), tiles - 1);
    products_begin();
    begin_values(state, weights, values + last * TILE_BYTES);
    products_wait<0>();
    results_are_there(state.sums);
    // The other's last turn, so that as many are taken as given.
    if (half.group == 0) take_turn(half);
}

/// Lets the tiles pass by a warpgroup that has no rows.
DEVICE void pass(const Barriers &barriers, i32 tiles, int thread) {
    for (i32 tile = 0; tile < tiles; tile++) {
        const int stage = tile % STAGES;
        barrier_wait(barriers.keys_full(stage), phase_of(tile));
        release_keys(barriers, stage);
        barrier_wait(barriers.values_full(stage), phase_of(tile));
        release_values(barriers, stage, thread);
    }
}
