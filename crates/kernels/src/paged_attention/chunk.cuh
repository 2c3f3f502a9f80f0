// What the two kernels for chunks share: their work, the softmax in registers, and the way out.
// To be included after pages.cuh.
//
// Scores, weights and sums lie as the tensor cores give them: of a block of 16 rows a lane has rows
// g and g + 8 (g = lane / 4), and of every 8 columns the two from 2 (lane % 4) on, so that x[c] are
// (row g, two columns), (row g + 8, the same) of columns 8 c to 8 c + 7.

/// Rows of a tile of queries, which one block has.
static const int ROWS = 128;

struct ChunkParams {
    LayerPages layer;
    /// Query [tokens, heads, HEAD_DIM]
    const void *q;
    /// i32 [seqs, table_stride], [seqs], [seqs + 1]
    const i32 *block_tables, *past_tokens, *live_starts;
    /// i32 [tiles, 2]: sequence (-1: none) and first row in its chunk; those of many keys first.
    const i32 *tiles;
    /// f32 or bf16 [tokens, heads, HEAD_DIM]
    void *out;
    i32 table_stride, group, window, out_is_f32;
    /// The softmax's scale times log2(e).
    float scale;
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

/// Where the queries of a row begin, and its result.
DEVICE u64 head_of_row(const ChunkParams &p, const Work &work, i32 row) {
    const u64 heads = (u64)p.layer.kv_heads * p.group;
    return ((work.token + row) * heads + work.head) * HEAD_DIM;
}

/// Page of a key, or -1 where no row sees it.
DEVICE i32 page_of(const ChunkParams &p, const Work &work, i32 position) {
    return position < work.end ? work.table[(u32)position / (u32)p.layer.page_tokens] : -1;
}

/// Of two rows; `largest` is in powers of two, as the softmax takes it, `total` the lane's part.
struct Softmax {
    float largest[2], total[2];
};

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

/// Scores to weights, in place; what earlier sums must be scaled by goes to `shrink`.
template <int COLUMNS>
DEVICE void weigh(Softmax &softmax, float (&s)[COLUMNS][4], float scale, float shrink[2]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float most = MINUS_INFINITY;
#pragma unroll
        for (int column = 0; column < COLUMNS; column++)
            most = fmaxf(most, fmaxf(s[column][2 * half], s[column][2 * half + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        most = fmaxf(softmax.largest[half], most * scale);
        // A window may hide the whole tile.
        const float from = most == MINUS_INFINITY ? 0.0f : most;
        shrink[half] = exp2_fast(softmax.largest[half] - from);
        softmax.largest[half] = most;
        float total = 0.0f;
#pragma unroll
        for (int column = 0; column < COLUMNS; column++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                s[column][i] = exp2_fast(s[column][i] * scale - from);
                total += s[column][i];
            }
        softmax.total[half] = softmax.total[half] * shrink[half] + total;
    }
}

template <typename T> DEVICE void store_pair(T *out, float a, float b) {
    struct alignas(2 * sizeof(T)) Pair {
        T number[2];
    } pair = {narrow<T>(a), narrow<T>(b)};
    *(Pair *)out = pair;
}

/// Writes the results of 16 rows, `first` of the block's and on; sums are in units of `unit`.
template <int COLUMNS>
DEVICE void write_rows(const ChunkParams &p, const Work &work, const Softmax &softmax,
                       const float (&sums)[COLUMNS][4], float unit, i32 first, int lane) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float total = softmax.total[half];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        const float factor = unit / total;
        const i32 row = first + half * 8 + lane / 4;
        if (row >= work.rows) continue;
        const u64 at = head_of_row(p, work, row) + lane % 4 * 2;
#pragma unroll
        for (int column = 0; column < COLUMNS; column++) {
            const float a = sums[column][2 * half] * factor;
            const float b = sums[column][2 * half + 1] * factor;
            if (p.out_is_f32) {
                store_pair((float *)p.out + at + column * 8, a, b);
            } else {
                store_pair((bf16 *)p.out + at + column * 8, a, b);
            }
        }
    }
}
