// Chunks over slots: what a block of slot_chunk.cu or slot_chunk_mma.cu does, where its slots are,
// and which of them its rows see. To be included after slot_chunk.cuh and chunk_softmax.cuh, with
// `Tile` (the numbers that are multiplied), HEAD_DIM, KEYS and `swizzled` set.

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

// ---- Slots, tile by tile.

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

// ---- Queries.

/// Writes `COUNT` rows of queries from `first` on to shared memory, and back for the kernel that
/// weighs slots if scores are added to.
template <int COUNT, int THREADS>
DEVICE void bring_queries(const SlotChunkParams &p, const Work &work, u32 shared, int first,
                          int thread) {
    const int vectors = HEAD_DIM / 8, times = COUNT * vectors / THREADS;
    const i32 column = work.head * HEAD_DIM + thread % vectors * 8;
    const auto row_of = [&](int i) { return first + (thread + i * THREADS) / vectors; };
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

/// Hides slots by their positions, of which those of `STAGES` tiles are kept; `ROWS` rows are at
/// `position` and on.
template <int STAGES, int ROWS> struct HideSlots {
    const Positions *positions;
    i32 position, window;
    int thread;

    DEVICE bool any(i32 tile) const {
        const Positions &here = positions[tile % STAGES];
        i32 most = here.most[0], least = here.least[0];
#pragma unroll
        for (int warp = 1; warp < KEYS / 32; warp++) {
            most = max(most, here.most[warp]);
            least = min(least, here.least[warp]);
        }
        return position < most || (window > 0 && least <= position + ROWS - 1 - window);
    }
    DEVICE void operator()(float (&s)[KEY_COLUMNS][4], i32 tile) const {
        const i32 *of_slot = positions[tile % STAGES].of_slot + thread % 4 * 2;
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
            *stats_at(p, work.seq.row + work.first_row + row, work.head) = log_sum;
    }
}

/// Writes the results of 16 rows from `first` on, and the logarithms of their sums.
DEVICE void finish_rows(const SlotChunkParams &p, const Work &work, const Softmax &softmax,
                        const float (&sums)[HEAD_DIM / 8][4], i32 first, int lane) {
    if (work.adds) write_log_sums(p, work, softmax, first, lane);
    if (p.out_type == ACT_F32)
        write_rows(rows_of(p, work, (float *)p.out), p.out_type, softmax, sums, 1.0f, first, lane);
    else
        write_rows(rows_of(p, work, (u16 *)p.out), p.out_type, softmax, sums, 1.0f, first, lane);
}
