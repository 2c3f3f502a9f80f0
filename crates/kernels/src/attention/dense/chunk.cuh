// Chunks of dense sequences: what a block does, and which keys its rows see. To be included after
// dense_step.cuh and chunk_softmax.cuh.

struct ChunkParams : DenseStep {
    /// i32 [tiles, 2]: sequence (-1: none) and first row in its chunk; those of many keys first.
    const i32 *tiles;
};

/// What a block does: `rows` rows from `token` of the batch on, the first at `position`.
struct Work {
    i32 head, kv_head;
    const i32 *table;
    i32 token, rows, position;
    /// Keys that some row sees, from the start of a tile on, and the number of tiles.
    i32 first, end, tiles;
};

/// Tiles of keys start at multiples of `KEYS`. False where there is nothing to do.
template <int KEYS> DEVICE bool find_work(const ChunkParams &p, Work &work) {
    const i32 seq = p.tiles[2 * blockIdx.y], first_row = p.tiles[2 * blockIdx.y + 1];
    if (seq < 0) return false;
    work.head = blockIdx.x;
    work.kv_head = work.head / p.group;
    work.table = p.block_tables + (u64)seq * p.table_stride;
    work.token = p.live_starts[seq] + first_row;
    work.rows = min(ROWS, p.live_starts[seq + 1] - work.token);
    work.position = p.past_tokens[seq] + first_row;
    work.first = p.window > 0 ? max(0, work.position - p.window + 1) / KEYS * KEYS : 0;
    work.end = work.position + work.rows;
    work.tiles = (work.end - work.first + KEYS - 1) / KEYS;
    return true;
}

/// The block's rows of queries or results, [tokens, heads, HEAD_DIM].
template <typename T> DEVICE HeadRows<T> rows_of(const ChunkParams &p, const Work &work, T *all) {
    const u64 heads = (u64)p.layer.kv_heads * p.group;
    return {all + (work.token * heads + work.head) * HEAD_DIM, heads * HEAD_DIM, work.rows};
}

/// Page of a key, or -1 where no row sees it.
DEVICE i32 page_of(const ChunkParams &p, const Work &work, i32 position) {
    return position < work.end ? work.table[(u32)position / (u32)p.layer.page_tokens] : -1;
}

/// Hides keys that lie ahead of a row, or behind its window. `key` is the lane's first key,
/// `position` that of its first row.
template <int COLUMNS>
DEVICE void hide(float (&s)[COLUMNS][4], i32 key, i32 position, i32 window) {
#pragma unroll
    for (int column = 0; column < COLUMNS; column++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const i32 ahead = key + column * 8 + i % 2 - (position + i / 2 * 8);
            if (0 < ahead || (window > 0 && ahead <= -window)) s[column][i] = MINUS_INFINITY;
        }
}

/// Writes the results of 16 rows, `first` of the block's and on.
template <int COLUMNS>
DEVICE void write_rows(const ChunkParams &p, const Work &work, const Softmax &softmax,
                       const float (&sums)[COLUMNS][4], float unit, i32 first, int lane) {
    if (p.out_type == ACT_F32)
        write_rows(rows_of(p, work, (float *)p.out), p.out_type, softmax, sums, unit, first, lane);
    else
        write_rows(rows_of(p, work, (u16 *)p.out), p.out_type, softmax, sums, unit, first, lane);
}
