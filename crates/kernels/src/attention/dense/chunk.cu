// ptx[80]: bf16_64 -DPAGE=bf16 -DHEAD_DIM=64
// ptx[80]: bf16_128 -DPAGE=bf16 -DHEAD_DIM=128
// ptx[80]: f16_64 -DPAGE=f16 -DHEAD_DIM=64
// ptx[80]: f16_128 -DPAGE=f16 -DHEAD_DIM=128
// ptx: e4m3_64 -DPAGE=e4m3 -DHEAD_DIM=64
// ptx: e4m3_128 -DPAGE=e4m3 -DHEAD_DIM=128
// ptx: e5m2_64 -DPAGE=e5m2 -DHEAD_DIM=64
// ptx: e5m2_128 -DPAGE=e5m2 -DHEAD_DIM=128
//
// Attention of chunks of many tokens: a block has 128 neighbouring rows of one chunk, and one head.
// On Hopper, chunk_hopper.cu takes the pages that are not fp8.
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

#include "chunk_softmax.cuh"

#include "chunk.cuh"

typedef PAGE Page;
typedef PageType<Page>::Query Query;

#include "chunk_mma.cuh"

static const bool SCALED = PageType<Page>::SCALED;
/// Bytes of a row and of a tile's keys as pages hold them.
static const int STORED_ROW = HEAD_DIM * sizeof(Page);
static const int STORED_SIDE = KEYS * STORED_ROW;
/// Keys of a tile that a warp copies.
static const int WARP_KEYS = KEYS / WARPS;
/// Shared memory: queries; two tiles as they are copied (fp8: with scales); and for fp8 the tile as
/// it is read.
static const int STAGE = 2 * STORED_SIDE + (SCALED ? 2 * KEYS * 4 : 0);
static const int STAGES_AT = ROWS * ROW;
static const int WIDE_AT = STAGES_AT + 2 * STAGE;

// ---- Loading.

DEVICE void load_queries(const ChunkParams &p, const Work &work, u32 shared) {
    const int vectors = ROW / 16;
    const HeadRows<const Query> from = rows_of(p, work, (const Query *)p.q);
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * vectors; i += THREADS) {
        const int row = i / vectors, vector = i % vectors;
        const bool is_there = row < from.rows;
        const u64 at = is_there ? row * from.stride + vector * 8 : 0;
        copy_async16(shared + swizzled(row, vector), from.first + at, is_there);
    }
}

/// Copies a warp's keys of a tile and their values; lane i knows the page of key i % WARP_KEYS,
/// which is at `position`.
DEVICE void load_keys(const ChunkParams &p, const Work &work, u32 stage, i32 position, i32 page,
                      int warp, int lane) {
    const i32 offset = (u32)position % (u32)p.layer.page_tokens;
    const u32 row = row_in_page(p.layer, work.kv_head, offset);
    const u64 page_at = page_start(p.layer, page), nowhere = ~0ull;
    const u64 row_at = page < 0 ? nowhere : page_at + (u64)row * STORED_ROW;
    const u8 *keys = p.layer.pages + p.layer.key_offset;
    const u8 *values = p.layer.pages + p.layer.value_offset;
    const int vectors = STORED_ROW / 16;
#pragma unroll
    for (int i = lane; i < WARP_KEYS * vectors; i += 32) {
        const int in_warp = i / vectors, vector = i % vectors;
        const u64 from = __shfl_sync(~0u, row_at, in_warp);
        const bool is_there = from != nowhere;
        const u64 at = is_there ? from + vector * 16 : 0;
        const int in_tile = warp * WARP_KEYS + in_warp;
        const u32 to = SCALED ? in_tile * STORED_ROW + vector * 16 : swizzled(in_tile, vector);
        copy_async16(stage + to, keys + at, is_there);
        copy_async16(stage + to + STORED_SIDE, values + at, is_there);
    }
    if (SCALED) {
        const int side = lane / WARP_KEYS, in_tile = warp * WARP_KEYS + lane % WARP_KEYS;
        const u64 at = page < 0 ? 0 : page_at + scales_offset(p.layer, STORED_ROW) + row * 4;
        const u32 to = stage + 2 * STORED_SIDE + (side * KEYS + in_tile) * 4;
        copy_async_small<4>(to, (side ? values : keys) + at, 0 <= page);
    }
}

/// Widens a stage's fp8 keys and values, which lie one after the other.
DEVICE void widen_tile(const u8 *stage, u8 *wide) {
    const int vectors = STORED_ROW / 16;
#pragma unroll
    for (int i = threadIdx.x; i < 2 * KEYS * vectors; i += THREADS) {
        const int row = i / vectors, vector = i % vectors;
        const Vec16 from = load16(stage + i * 16);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            Vec16 to;
#pragma unroll
            for (int word = 0; word < 4; word++)
                to.word[word] = widen_pair<Page>(from.word[2 * half + word / 2] >> word % 2 * 16);
            store16(wide + swizzled(row, 2 * vector + half), to);
        }
    }
}

// ---- One tile, of which a warp has two blocks of 16 rows.

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
    float shrink[2][2];
#pragma unroll
    for (int block = 0; block < 2; block++) {
        if (hides_ahead || hides_behind)
            hide(s[block], start + lane % 4 * 2, position + block * 16 + lane / 4, p.window);
        raise_largest(state.softmax[block], s[block], p.scale, shrink[block]);
        weigh(state.softmax[block], s[block], p.scale, shrink[block]);
    }
    if (SCALED) scale_weights(state, s, shrink, scales + KEYS, lane);
    shrink_sums(state, shrink);
    add_values(state, s, tile + SIDE, lane);
}

KERNEL __launch_bounds__(THREADS, 2) chunk_attention(const __grid_constant__ ChunkParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_inputs();
    let_next_start();
    Work work;
    if (!find_work<KEYS>(p, work)) return;
    const u32 queries = shared_address(shared), stages = queries + STAGES_AT;
    // The page of this lane's key is fetched two tiles ahead, its copy begun one ahead.
    i32 key = work.first + warp * WARP_KEYS + lane % WARP_KEYS;
    i32 page = page_of(p, work, key);
    const auto load_next = [&](u32 stage) {
        const i32 next_page = page_of(p, work, key + KEYS);
        load_keys(p, work, stage, key, page, warp, lane);
        copy_async_commit();
        page = next_page;
        key += KEYS;
    };
    load_queries(p, work, queries);
    load_next(stages);
    State state = {};
#pragma unroll
    for (int i = 0; i < 4; i++) state.softmax[i / 2].largest[i % 2] = MINUS_INFINITY;
    for (i32 tile = 0; tile < work.tiles; tile++) {
        copy_async_wait<0>();
        __syncthreads();
        const int at = tile % 2 * STAGE;
        if (tile + 1 < work.tiles) load_next(stages + STAGE - at);
        const float *scales = (const float *)(shared + STAGES_AT + at + 2 * STORED_SIDE);
        if (SCALED) {
            widen_tile(shared + STAGES_AT + at, shared + WIDE_AT);
            __syncthreads();
        }
        attend(state, p, work, queries, SCALED ? queries + WIDE_AT : stages + at, scales,
               work.first + tile * KEYS, warp, lane);
    }
    const float unit = SCALED ? state.unit : 1.0f;
    write_rows(p, work, state.softmax[0], state.sums[0], unit, warp * 32, lane);
    write_rows(p, work, state.softmax[1], state.sums[1], unit, warp * 32 + 16, lane);
}
