// ptx: bf16_64 -DPAGE=bf16 -DHEAD_DIM=64
// ptx: bf16_128 -DPAGE=bf16 -DHEAD_DIM=128
// ptx: f16_64 -DPAGE=f16 -DHEAD_DIM=64
// ptx: f16_128 -DPAGE=f16 -DHEAD_DIM=128
// ptx: e4m3_64 -DPAGE=e4m3 -DHEAD_DIM=64
// ptx: e4m3_128 -DPAGE=e4m3 -DHEAD_DIM=128
// ptx: e5m2_64 -DPAGE=e5m2 -DHEAD_DIM=64
// ptx: e5m2_128 -DPAGE=e5m2 -DHEAD_DIM=128
//
// Attention of chunks of many tokens: a block has 128 neighbouring rows of one chunk, and one head.
//
// Keys come in tiles of 64 that start at multiples of 64, the next one copied while one is worked
// on. Each warp has 32 rows, so that what it reads of a key serves two products. A row meets tiles
// in the order of positions, and one that hides all its keys from a row changes none of its sums:
// where a chunk began does not show in the result.
//
// Numbers of fp8 tiles are widened to f16 in shared memory, once for all warps.
//
// Roofline: 4 * HEAD_DIM operations per query and visible key; bound by the tensor cores.

#include "pages.cuh"

typedef PAGE Page;
typedef PageType<Page>::Query Query;

static const bool SCALED = PageType<Page>::SCALED;
static const int WARPS = 4;
static const int THREADS = WARPS * 32;
static const int ROWS = 128;
static const int KEYS = 64;
/// Bytes of a row and of a tile's keys as the tensor cores read them, and as pages hold them.
static const int ROW = HEAD_DIM * 2;
static const int SIDE = KEYS * ROW;
static const int STORED_ROW = HEAD_DIM * sizeof(Page);
static const int STORED_SIDE = KEYS * STORED_ROW;
/// Shared memory: queries; two tiles as they are copied (fp8: with scales); places of the rows of
/// two tiles; and for fp8 the tile as it is read.
static const int STAGE = 2 * STORED_SIDE + (SCALED ? 2 * KEYS * 4 : 0);
static const int STAGES_AT = ROWS * ROW;
static const int WIDE_AT = STAGES_AT + 2 * STAGE;
static const int PLACES_AT = WIDE_AT + (SCALED ? 2 * SIDE : 0);
/// Tensor-core steps of 16 numbers along a head, columns of 8 keys, columns of 8 numbers.
static const int STEPS = HEAD_DIM / 16;
static const int KEY_COLUMNS = KEYS / 8;
static const int COLUMNS = HEAD_DIM / 8;

struct ChunkParams {
    LayerPages layer;
    /// Query [tokens, heads, HEAD_DIM]
    const Query *q;
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
    /// Keys that some row sees, from a multiple of `KEYS` on.
    i32 first, end;
};

DEVICE bool find_work(const ChunkParams &p, Work &work) {
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
    return true;
}

/// A chunk of 16 bytes of a tile, at a place where eight rows of one column lie in all banks.
DEVICE u32 swizzled(int row, int chunk) {
    return row * ROW + ((chunk ^ (row & 7)) << 4);
}

// ---- Loading.

DEVICE void load_queries(const ChunkParams &p, const Work &work, u32 shared) {
    const int chunks = ROW / 16;
    const u64 heads = (u64)p.layer.kv_heads * p.group;
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * chunks; i += THREADS) {
        const int row = i / chunks, chunk = i % chunks;
        const bool is_there = row < work.rows;
        const u64 at = is_there ? ((work.token + row) * heads + work.head) * ROW + chunk * 16 : 0;
        copy_async16(shared + swizzled(row, chunk), (const u8 *)p.q + at, is_there);
    }
}

/// Page of a key, or -1 where no row sees it.
DEVICE i32 page_of(const ChunkParams &p, const Work &work, i32 position) {
    return position < work.end ? work.table[(u32)position / (u32)p.layer.page_tokens] : -1;
}

/// Where a key lies: bytes from the first page to its page, and its row there (-1: nowhere).
struct Place {
    u64 page;
    i32 row;
};

DEVICE Place place_of(const ChunkParams &p, const Work &work, i32 position, i32 page) {
    const i32 offset = (u32)position % (u32)p.layer.page_tokens;
    const i32 row = page < 0 ? -1 : (i32)row_in_page(p.layer, work.kv_head, offset);
    return {page < 0 ? 0 : page_start(p.layer, page), row};
}

DEVICE void load_tile(const ChunkParams &p, u32 stage, const Place *places) {
    const u8 *keys = p.layer.pages + p.layer.key_offset;
    const u8 *values = p.layer.pages + p.layer.value_offset;
    const int chunks = STORED_ROW / 16;
#pragma unroll
    for (int i = threadIdx.x; i < KEYS * chunks; i += THREADS) {
        const int row = i / chunks, chunk = i % chunks;
        const Place place = places[row];
        const bool is_there = 0 <= place.row;
        const u64 at = is_there ? place.page + (u64)place.row * STORED_ROW + chunk * 16 : 0;
        const u32 to = stage + (SCALED ? i * 16 : swizzled(row, chunk));
        copy_async16(to, keys + at, is_there);
        copy_async16(to + STORED_SIDE, values + at, is_there);
    }
    if (SCALED) {
        const Place place = places[threadIdx.x % KEYS];
        const bool is_there = 0 <= place.row;
        const u64 scale = scales_offset(p.layer, STORED_ROW) + place.row * 4;
        const u8 *side = threadIdx.x < KEYS ? keys : values;
        const u64 at = is_there ? place.page + scale : 0;
        copy_async4(stage + 2 * STORED_SIDE + threadIdx.x * 4, side + at, is_there);
    }
}

/// Widens a stage's fp8 keys and values, which lie one after the other.
DEVICE void widen_tile(const u8 *stage, u8 *wide) {
    const int chunks = STORED_ROW / 16;
#pragma unroll
    for (int i = threadIdx.x; i < 2 * KEYS * chunks; i += THREADS) {
        const int row = i / chunks, chunk = i % chunks;
        const Vec16 from = load16(stage + i * 16);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            Vec16 to;
#pragma unroll
            for (int word = 0; word < 4; word++)
                to.word[word] = widen_pair<Page>(from.word[2 * half + word / 2] >> word % 2 * 16);
            store16(wide + swizzled(row, 2 * chunk + half), to);
        }
    }
}

// ---- One tile. A warp has two blocks of 16 rows; a lane has rows g and g + 8 (g = lane / 4) of
// each, and of every 8 columns the two from 2 (lane % 4) on.

/// A warp's sums so far. `largest` is in powers of two, as the softmax takes it; `sums` are in
/// units of `unit` where values have scales.
struct State {
    float largest[2][2], total[2][2];
    float sums[2][COLUMNS][4];
    float unit;
};

DEVICE void score(float s[2][KEY_COLUMNS][4], u32 queries, u32 keys, int lane) {
    const u32 a_at = queries + swizzled(lane % 16, lane / 16);
    const u32 b_at = keys + swizzled(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        u32 a[2][4];
        load_matrices(a[0], a_at ^ step * 32);
        load_matrices(a[1], (a_at ^ step * 32) + 16 * ROW);
#pragma unroll
        for (int column = 0; column < KEY_COLUMNS; column += 2) {
            u32 b[4];
            load_matrices(b, (b_at ^ step * 32) + column * 8 * ROW);
#pragma unroll
            for (int block = 0; block < 2; block++) {
                mma<Query>(s[block][column], a[block], b);
                mma<Query>(s[block][column + 1], a[block], b + 2);
            }
        }
    }
}

DEVICE void add_values(State &state, const float s[2][KEY_COLUMNS][4], u32 values, int lane) {
    const u32 b_at = values + swizzled(lane % 16, lane / 16);
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++) {
        u32 a[2][4];
#pragma unroll
        for (int block = 0; block < 2; block++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *pair = s[block][2 * step + i / 2] + i % 2 * 2;
                a[block][i] = pack<Query>(pair[0], pair[1]);
            }
#pragma unroll
        for (int column = 0; column < COLUMNS; column += 2) {
            u32 b[4];
            load_matrices_transposed(b, (b_at ^ column * 16) + step * 16 * ROW);
#pragma unroll
            for (int block = 0; block < 2; block++) {
                mma<Query>(state.sums[block][column], a[block], b);
                mma<Query>(state.sums[block][column + 1], a[block], b + 2);
            }
        }
    }
}

/// Hides keys that lie ahead of a row, or behind its window. `key` is the lane's first key,
/// `position` that of its first row.
DEVICE void hide(float s[2][KEY_COLUMNS][4], i32 key, i32 position, i32 window) {
#pragma unroll
    for (int block = 0; block < 2; block++)
#pragma unroll
        for (int column = 0; column < KEY_COLUMNS; column++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const i32 ahead = key + column * 8 + i % 2 - (position + block * 16 + i / 2 * 8);
                const bool is_hidden = 0 < ahead || (window > 0 && ahead <= -window);
                if (is_hidden) s[block][column][i] = MINUS_INFINITY;
            }
}

/// Scores to weights, in place; returns what earlier sums must be scaled by in `shrink`.
DEVICE void weigh(State &state, float s[2][KEY_COLUMNS][4], float scale, float shrink[2][2]) {
#pragma unroll
    for (int block = 0; block < 2; block++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float most = MINUS_INFINITY;
#pragma unroll
            for (int column = 0; column < KEY_COLUMNS; column++)
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++)
                    most = fmaxf(most, s[block][column][i]);
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
            most = fmaxf(state.largest[block][half], most * scale);
            // A window may hide the whole tile.
            const float from = most == MINUS_INFINITY ? 0.0f : most;
            shrink[block][half] = exp2_fast(state.largest[block][half] - from);
            state.largest[block][half] = most;
            float total = 0.0f;
#pragma unroll
            for (int column = 0; column < KEY_COLUMNS; column++)
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    s[block][column][i] = exp2_fast(s[block][column][i] * scale - from);
                    total += s[block][column][i];
                }
            state.total[block][half] = state.total[block][half] * shrink[block][half] + total;
        }
}

/// Scores times the scales of keys.
DEVICE void scale_scores(float s[2][KEY_COLUMNS][4], const float *scales, int lane) {
#pragma unroll
    for (int column = 0; column < KEY_COLUMNS; column++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float scale = scales[column * 8 + lane % 4 * 2 + i % 2];
            s[0][column][i] *= scale;
            s[1][column][i] *= scale;
        }
}

/// Weights times the scales of values, in a unit that keeps them from vanishing in f16. It is a
/// power of two: a change of it changes no digits.
DEVICE void scale_weights(State &state, float s[2][KEY_COLUMNS][4], float shrink[2][2],
                          const float *scales, int lane) {
    float most = 0.0f;
#pragma unroll
    for (int i = 0; i < KEYS / 32; i++) most = fmaxf(most, scales[lane + 32 * i]);
    const float unit = fmaxf(state.unit, power_of_two_below(warp_max(most)));
    const float inverse = inverse_power(unit);
#pragma unroll
    for (int column = 0; column < KEY_COLUMNS; column++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float scale = scales[column * 8 + lane % 4 * 2 + i % 2] * inverse;
            s[0][column][i] *= scale;
            s[1][column][i] *= scale;
        }
#pragma unroll
    for (int i = 0; i < 4; i++) shrink[i / 2][i % 2] *= state.unit * inverse;
    state.unit = unit;
}

DEVICE void attend(State &state, const ChunkParams &p, const Work &work, u32 queries, u32 tile,
                   const float *scales, i32 start, int warp, int lane) {
    const i32 position = work.position + warp * 32;
    const bool is_ahead = position + 31 < start;
    const bool is_behind = p.window > 0 && start + KEYS <= position - p.window + 1;
    if (is_ahead || is_behind) return;
    float s[2][KEY_COLUMNS][4] = {};
    score(s, queries + warp * 32 * ROW, tile, lane);
    if (SCALED) scale_scores(s, scales, lane);
    const bool hides_ahead = position < start + KEYS - 1;
    const bool hides_behind = p.window > 0 && start <= position + 31 - p.window;
    if (hides_ahead || hides_behind)
        hide(s, start + lane % 4 * 2, position + lane / 4, p.window);
    float shrink[2][2];
    weigh(state, s, p.scale, shrink);
    if (SCALED) scale_weights(state, s, shrink, scales + KEYS, lane);
    const float least = fminf(fminf(shrink[0][0], shrink[0][1]), fminf(shrink[1][0], shrink[1][1]));
    // Most tiles hold no new largest score; then there is nothing to scale.
    if (__any_sync(~0u, least != 1.0f)) {
#pragma unroll
        for (int column = 0; column < COLUMNS; column++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                state.sums[0][column][i] *= shrink[0][i / 2];
                state.sums[1][column][i] *= shrink[1][i / 2];
            }
    }
    add_values(state, s, tile + SIDE, lane);
}

template <typename T> DEVICE void store_pair(T *out, float a, float b) {
    struct alignas(2 * sizeof(T)) Pair {
        T number[2];
    } pair = {narrow<T>(a), narrow<T>(b)};
    *(Pair *)out = pair;
}

DEVICE void write_out(const State &state, const ChunkParams &p, const Work &work, int warp,
                      int lane) {
    const u64 heads = (u64)p.layer.kv_heads * p.group;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int block = i / 2, half = i % 2;
        float total = state.total[block][half];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        const float factor = (SCALED ? state.unit : 1.0f) / total;
        const i32 row = warp * 32 + block * 16 + half * 8 + lane / 4;
        if (row >= work.rows) continue;
        const u64 at = ((work.token + row) * heads + work.head) * HEAD_DIM + lane % 4 * 2;
#pragma unroll
        for (int column = 0; column < COLUMNS; column++) {
            const float a = state.sums[block][column][2 * half] * factor;
            const float b = state.sums[block][column][2 * half + 1] * factor;
            if (p.out_is_f32) {
                store_pair((float *)p.out + at + column * 8, a, b);
            } else {
                store_pair((bf16 *)p.out + at + column * 8, a, b);
            }
        }
    }
}

KERNEL __launch_bounds__(THREADS, 2) chunk_attention(const __grid_constant__ ChunkParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_inputs();
    let_next_start();
    Work work;
    if (!find_work(p, work)) return;
    Place *places = (Place *)(shared + PLACES_AT);
    const u32 queries = shared_address(shared), stages = queries + STAGES_AT;
    const i32 tiles = (work.end - work.first + KEYS - 1) / KEYS;
    // The page of this thread's key is fetched three tiles ahead of the tile's use, its place in
    // shared memory written two ahead, the tile's copy begun one ahead.
    const i32 key = work.first + threadIdx.x % KEYS;
    i32 page = page_of(p, work, key);
    const auto find_place = [&](i32 tile) {
        const i32 next_page = page_of(p, work, key + (tile + 1) * KEYS);
        if (threadIdx.x < KEYS)
            places[tile % 2 * KEYS + threadIdx.x] = place_of(p, work, key + tile * KEYS, page);
        page = next_page;
    };
    load_queries(p, work, queries);
    find_place(0);
    __syncthreads();
    load_tile(p, stages, places);
    copy_async_commit();
    find_place(1);
    State state = {};
#pragma unroll
    for (int i = 0; i < 4; i++) state.largest[i / 2][i % 2] = MINUS_INFINITY;
    for (i32 tile = 0; tile < tiles; tile++) {
        copy_async_wait<0>();
        __syncthreads();
        const int at = tile % 2 * STAGE, next = STAGE - at;
        if (tile + 1 < tiles) load_tile(p, stages + next, places + (tile + 1) % 2 * KEYS);
        copy_async_commit();
        find_place(tile + 2);
        const float *scales = (const float *)(shared + STAGES_AT + at + 2 * STORED_SIDE);
        if (SCALED) {
            widen_tile(shared + STAGES_AT + at, shared + WIDE_AT);
            __syncthreads();
        }
        attend(state, p, work, queries, SCALED ? queries + WIDE_AT : stages + at, scales,
               work.first + tile * KEYS, warp, lane);
    }
    write_out(state, p, work, warp, lane);
}
