// What the two warpgroups that sum do, each for its 64 rows. To be included after
// hstu_row_half.cuh.
//
// A warpgroup begins the scores of a tile before it adds the values of the one before, so that the
// tensor cores have work while it weighs scores. The two warpgroups go on as they can. Turns, as in
// chunk_hopper.cuh, were slower on an H200 when tried (532 and 559 TFLOP/s instead of 537 and 612
// with heads of 128 and 256; one run, before keys and values had a warp each to bring them).

/// Of 16 keys a row, as the left side of a product.
typedef u32 Weights[KEYS / 16][4];

// ---- Products.

/// `tile_descriptor` of a place, and of others behind it.
struct TileAt {
    u32 low, high;

    DEVICE TileAt(u32 shared, u32 leading, u32 stride) {
        const u64 first = tile_descriptor(shared, leading, stride);
        low = (u32)first, high = first >> 32;
        // Or all places would be found before the loop, and take the registers of the sums.
        asm volatile("" : "+r"(low));
    }
    DEVICE u64 behind(u32 bytes) const { return (u64)high << 32 | (low + (bytes >> 4)); }
};

DEVICE void begin_scores(float (&s)[KEY_COLUMNS][4], u32 queries, u32 keys) {
    const TileAt a(queries, 0, 1024), b(keys, 0, EIGHT_BYTES);
#pragma unroll
    for (int step = 0; step < HEAD_DIM / 16; step++) {
        const u32 part = step / 4, within = step % 4 * 32;
        multiply<bf16>(s, a.behind(part * QUERY_PART_BYTES + within),
                       b.behind(part * PART_BYTES + within), step > 0);
    }
    products_commit();
}

DEVICE void begin_values(float (&sums)[COLUMNS][4], const Weights &weights, u32 values) {
    const TileAt b(values, PART_BYTES, EIGHT_BYTES);
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++)
        multiply_across<bf16>(sums, weights[step], b.behind(step * 2 * EIGHT_BYTES));
    products_commit();
}

/// Zeros for values that no row of the block sees: their slots may hold anything, and a weight of
/// zero does not hide a NaN. Both warpgroups may do so, each before its own product.
DEVICE void clear_unseen(const Half &half, const Item &item, i32 tile, u32 count) {
    const bool is_live = item.is_live(tile);
    const i32 start = item.start_of(tile);
    const i32 from = (is_live ? item.live.begin : item.history.begin) - start;
    const i32 to = (is_live ? item.live.end : item.history.end) - start;
    if (from <= 0 && to >= KEYS) return;
    const Block &block = half.block;
    u8 *values = block.shared + (block.values().tile(count) - block.base);
    for (i32 i = half.thread; i < KEYS * PARTS * 8; i += WARPGROUP) {
        const i32 row = i / (PARTS * 64) * 8 + i / 8 % 8;
        if (row < from || row >= to) store16(values + i * 16, {});
    }
    fence_for_products();
    half.sync();
}

/// Begins to add the values of tile `tile`, the block's `count`-th.
DEVICE void add_values(float (&sums)[COLUMNS][4], const Weights &weights, const Half &half,
                       const Item &item, i32 tile, u32 count) {
    const Block::Values values = half.block.values();
    values.wait_full(count);
    clear_unseen(half, item, tile, count);
    products_begin();
    begin_values(sums, weights, values.tile(count));
}

// ---- Weights.

DEVICE float tanh_fast(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// A score of zero has a weight of zero. What the thread's two rows see is read again for each of
/// the few tiles that need it: registers are scarce.
DEVICE void hide(float (&s)[KEY_COLUMNS][4], const Half &half, const Item &item, i32 tile) {
    const i32 *spans = (const i32 *)(half.block.shared + SPANS_AT) + (item.is_live(tile) ? 2 : 0);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const i32 *span = spans + 4 * (half.row() + 8 * row);
        const i32 begin = span[0];
        const u32 length = max(span[1] - begin, 0);
        const i32 first = item.start_of(tile) + half.lane() % 4 * 2 - begin;
#pragma unroll
        for (int column = 0; column < KEY_COLUMNS; column++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                if ((u32)(first + 8 * column + i) >= length) s[column][2 * row + i] = 0.0f;
    }
}

/// silu(alpha * s), by x * sigmoid(x) = h + h * tanh(h) with h = x / 2.
DEVICE void weigh(float (&s)[KEY_COLUMNS][4], float half_alpha) {
#pragma unroll
    for (int column = 0; column < KEY_COLUMNS; column++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float h = s[column][i] * half_alpha;
            s[column][i] = __fmaf_rn(h, tanh_fast(h), h);
        }
}

DEVICE void pack_weights(Weights &weights, const float (&s)[KEY_COLUMNS][4]) {
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *pair = s[2 * step + i / 2] + i % 2 * 2;
            weights[step][i] = pack<bf16>(pair[0], pair[1]);
        }
}

// ---- The loop over an item's tiles.

/// Lets a tile pass by of which the warpgroup's rows see nothing.
DEVICE void pass_tile(const Half &half, u32 count) {
    half.block.keys().wait_full(count);
    half.release(half.block.keys().empty(count));
    half.block.values().wait_full(count);
    half.release(half.block.values().empty(count));
}

/// The last tile that the rows see; -1: none.
DEVICE i32 last_seen(const RowsView &view, const Item &item) {
    i32 tile = item.last - 1;
    while (tile >= item.first && !view.sees(item, tile)) tile--;
    return tile >= item.first ? tile : -1;
}

/// What a warpgroup has in hand while it goes through an item's tiles.
struct Walk {
    const Half &half;
    const Item &item;
    const RowsView &view;
    float half_alpha;
    /// After this tile neither the queries nor the spans are read.
    i32 last;
    /// The tile, and how many the block had before it.
    i32 tile;
    u32 count;

    DEVICE bool sees() const { return tile < item.last && view.sees(item, tile); }
    DEVICE void go_on() { tile++, count++; }

    /// Begins the scores of the tile, once it is there.
    DEVICE void begin(float (&s)[KEY_COLUMNS][4]) const {
        half.block.keys().wait_full(count);
        products_begin();
        begin_scores(s, half.queries(), half.block.keys().tile(count));
    }
    /// Makes weights of the scores; nothing reads the tile's keys any more.
    DEVICE void finish(float (&s)[KEY_COLUMNS][4], Weights &weights) const {
        half.release(half.block.keys().empty(count));
        if (!view.sees_all(item, tile)) hide(s, half, item, tile);
        if (tile == last) half.leave_item();
        weigh(s, half_alpha);
        pack_weights(weights, s);
    }
    /// Begins to add the values of the tile before.
    DEVICE void add_before(float (&sums)[COLUMNS][4], const Weights &weights) const {
        add_values(sums, weights, half, item, tile - 1, count - 1);
    }
    /// Nothing reads the values of the tile `back` before any more.
    DEVICE void release_values(u32 back) const {
        half.release(half.block.values().empty(count - back));
    }
};

/// From the weights of the tile before to those of this one. The tile's scores are there when only
/// the products with the values before are under way: those overlap with the weighing. The compiler
/// would move the weighing behind any later wait, so there is none: what they read is left alone
/// until the next scores are there, and two sets of weights take turns.
DEVICE void step(const Walk &walk, float (&sums)[COLUMNS][4], float (&s)[KEY_COLUMNS][4],
                 const Weights &before, Weights &weights, bool is_second) {
    walk.begin(s);
    walk.add_before(sums, before);
    products_wait<1>();
    results_are_there(s);
    if (!is_second) walk.release_values(2);
    walk.finish(s, weights);
}

/// A run of tiles that the rows see.
DEVICE void sum_run(Walk &walk, float (&sums)[COLUMNS][4]) {
    float s[KEY_COLUMNS][4];
    Weights even, odd;
    walk.begin(s);
    products_wait<0>();
    results_are_there(s);
    walk.finish(s, even);
    walk.go_on();
    bool is_second = true, ends_odd = false;
    for (;;) {
        if (!walk.sees()) break;
        step(walk, sums, s, even, odd, is_second);
        is_second = false;
        walk.go_on();
        if (!walk.sees()) {
            ends_odd = true;
            break;
        }
        step(walk, sums, s, odd, even, false);
        walk.go_on();
    }
    if (ends_odd) walk.add_before(sums, odd);
    else walk.add_before(sums, even);
    products_wait<0>();
    results_are_there(sums);
    if (!is_second) walk.release_values(2);
    walk.release_values(1);
}

DEVICE void sum_tiles(float (&sums)[COLUMNS][4], const Half &half, const Item &item,
                      const RowsView &view, float half_alpha, u32 &count) {
    const i32 last = last_seen(view, item);
    if (last < 0) half.leave_item();
    Walk walk = {half, item, view, half_alpha, last, item.first, count};
    while (walk.tile < item.last) {
        if (walk.sees()) {
            sum_run(walk, sums);
        } else {
            pass_tile(half, walk.count);
            walk.go_on();
        }
    }
    count = walk.count;
}

// ---- Results.

/// Exchanges words among four lanes: word j of lane i becomes word i of lane j.
DEVICE void exchange(Vec16 &x, int lane) {
    const bool is_odd = lane & 1, is_high = lane & 2;
    u32 a = __shfl_xor_sync(~0u, is_odd ? x.word[0] : x.word[1], 1);
    u32 b = __shfl_xor_sync(~0u, is_odd ? x.word[2] : x.word[3], 1);
    if (is_odd) x.word[0] = a, x.word[2] = b;
    else x.word[1] = a, x.word[3] = b;
    a = __shfl_xor_sync(~0u, is_high ? x.word[0] : x.word[2], 2);
    b = __shfl_xor_sync(~0u, is_high ? x.word[1] : x.word[3], 2);
    if (is_high) x.word[0] = a, x.word[1] = b;
    else x.word[2] = a, x.word[3] = b;
}

/// Two rows of a thread, as sums of a part or as results.
DEVICE void write_rows(const HstuAttentionParams &p, const Item &item,
                       const float (&sums)[COLUMNS][4], const Half &half) {
    const int lane = half.lane();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const i32 row = half.row() + 8 * i;
        const bool is_there = row < item.rows;
        const i64 token = item.row + row;
        if (item.part >= 0) {
            const i64 place = ((i64)item.part * p.heads + item.head) * ROWS + row;
            float *to = p.partials + place * HEAD_DIM + lane % 4 * 2;
            if (is_there)
#pragma unroll
                for (int column = 0; column < COLUMNS; column++)
                    *(float2 *)(to + 8 * column) = {sums[column][2 * i], sums[column][2 * i + 1]};
            continue;
        }
        const float factor = p.row_factors && is_there ? p.row_factors[token] : p.factor;
#pragma unroll
        for (int four = 0; four < COLUMNS / 4; four++) {
            Vec16 x;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float *pair = sums[4 * four + j] + 2 * i;
                x.word[j] = pack<bf16>(pair[0] * factor, pair[1] * factor);
            }
            exchange(x, lane);
            bf16 *to = p.out + token * p.out_stride + item.head * HEAD_DIM;
            if (is_there) store16(to + 32 * four + lane % 4 * 8, x);
        }
    }
}

/// Items until there are no more.
DEVICE void sum_items(const HstuAttentionParams &p, const Half &half) {
    u32 count = 0;
    for (u32 number = 0;; number++) {
        half.block.wait_item(number);
        const Item item = read_item(half.block.shared, half.lane());
        if (item.rows == 0) break;
        const RowsView view = view_rows(half, item);
        if (p.activates) activate_queries(half);
        __syncwarp();
        float sums[COLUMNS][4] = {};
        sum_tiles(sums, half, item, view, 0.5f * p.alpha, count);
        write_rows(p, item, sums, half);
    }
}
