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
// on, a part with each step of its first product. Each warp has 32 rows, so that what it reads of a
// key serves two products. A row meets tiles in the order of positions, and one that hides all its
// keys from a row changes none of its sums: where a chunk began does not show in the result.
//
// Numbers of fp8 tiles are widened to f16 in shared memory, once for all warps.
//
// Roofline: 4 * HEAD_DIM operations per query and visible key; bound by the tensor cores.

#include "pages.cuh"

#include "chunk_softmax.cuh"

#include "dense_step.cuh"

#include "chunk.cuh"

typedef PAGE Page;
typedef PageType<Page>::Query Query;

#include "chunk_mma.cuh"

static const bool SCALED = PageType<Page>::SCALED;
/// Bytes of a row and of a tile's keys as pages hold them.
static const int STORED_ROW = HEAD_DIM * sizeof(Page);
static const int STORED_SIDE = KEYS * STORED_ROW;
/// Keys of a tile that a warp copies, vectors of a row, and copies of a warp's keys.
static const int WARP_KEYS = KEYS / WARPS;
static const int STORED_VECTORS = STORED_ROW / 16;
static const int PARTS = WARP_KEYS * STORED_VECTORS / 32;
static_assert(PARTS <= STEPS, "a part is copied beside a step of the products");
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

/// Copies a warp's keys and values of one tile after the other; a lane knows where key
/// lane % WARP_KEYS of the next one lies.
struct KeyCopies {
    const ChunkParams &p;
    const Work &work;
    int warp, lane;
    /// Bytes from the layer's first keys or values to its row and to the row's scale; negative
    /// where no row sees it.
    i64 row, scale;
    /// The key after it, and its page.
    i32 key, page;

    DEVICE KeyCopies(const ChunkParams &p, const Work &work, int warp, int lane)
        : p(p), work(work), warp(warp), lane(lane),
          key(work.first + warp * WARP_KEYS + lane % WARP_KEYS), page(page_of(p, work, key)) {
        find_next();
    }

    DEVICE void find_next() {
        const i32 offset = (u32)key % (u32)p.layer.page_tokens;
        const u32 in_page = row_in_page(p.layer, work.kv_head, offset);
        const i64 start = page_start(p.layer, page);
        row = page < 0 ? -1 : start + (i64)in_page * STORED_ROW;
        if (SCALED)
            scale = page < 0 ? -1 : start + scales_offset(p.layer, STORED_ROW) + in_page * 4;
        key += KEYS;
        page = page_of(p, work, key);
    }

    DEVICE void copy_part(u32 stage, int part) const {
        const int i = part * 32 + lane;
        const u32 first = stage + warp * WARP_KEYS * STORED_ROW;
        const u32 to = SCALED ? first + i * 16 : copy_moved(copy_start(first, lane), part);
        const i64 from = __shfl_sync(~0u, row, i / STORED_VECTORS);
        const u8 *at = p.layer.pages + from + i % STORED_VECTORS * 16;
        copy_async16_or_zeros(to, at + p.layer.key_offset, 0 <= from);
        copy_async16_or_zeros(to + STORED_SIDE, at + p.layer.value_offset, 0 <= from);
    }

    /// Half of the lanes copy the scales of keys.
    DEVICE void copy_scales(u32 stage) const {
        const int side = lane / WARP_KEYS, in_tile = warp * WARP_KEYS + lane % WARP_KEYS;
        const u64 offset = side ? p.layer.value_offset : p.layer.key_offset;
        const u32 to = stage + 2 * STORED_SIDE + (side * KEYS + in_tile) * 4;
        copy_async_small<4>(to, p.layer.pages + offset + max(scale, (i64)0), 0 <= scale);
    }
};

/// Widens a stage's fp8 keys and values, which lie one after the other.
DEVICE void widen_tile(const u8 *stage, u8 *wide) {
#pragma unroll
    for (int i = threadIdx.x; i < 2 * KEYS * STORED_VECTORS; i += THREADS) {
        const int row = i / STORED_VECTORS, vector = i % STORED_VECTORS;
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

/// `copy_part` copies a part of the next tile, of which there are `PARTS`.
template <typename CopyPart>
DEVICE void attend(State &state, const ChunkParams &p, const Work &work, u32 queries, u32 tile,
                   const float *scales, i32 start, int warp, int lane, const CopyPart &copy_part) {
    const i32 position = work.position + warp * 32;
    const bool is_ahead = position + 31 < start;
    const bool is_behind = p.window > 0 && start + KEYS <= position - p.window + 1;
    if (is_ahead || is_behind) {
#pragma unroll
        for (int part = 0; part < PARTS; part++) copy_part(part);
        return;
    }
    float s[2][KEY_COLUMNS][4] = {};
    score(s, queries + warp * 32 * ROW, tile, lane, [&](int step) {
        if (step < PARTS) copy_part(step);
    });
    if (SCALED) scale_scores(s, scales, lane);
    const bool hides_ahead = position < start + KEYS - 1;
    const bool hides_behind = p.window > 0 && start <= position + 31 - p.window;
    float shrink[2][2];
    if (hides_ahead || hides_behind) {
#pragma unroll
        for (int block = 0; block < 2; block++)
            hide(s[block], start + lane % 4 * 2, position + block * 16 + lane / 4, p.window);
    }
    weigh(state, s, p.scale, shrink);
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
    // A key's page is fetched two tiles ahead, and its copy begun one ahead.
    KeyCopies copies(p, work, warp, lane);
    const auto end_copies = [&](u32 stage) {
        if (SCALED) copies.copy_scales(stage);
        copy_async_commit();
        copies.find_next();
    };
    load_queries(p, work, queries);
#pragma unroll
    for (int part = 0; part < PARTS; part++) copies.copy_part(stages, part);
    end_copies(stages);
    State state = {};
#pragma unroll
    for (int i = 0; i < 4; i++) state.softmax[i / 2].largest[i % 2] = MINUS_INFINITY;
    for (i32 tile = 0; tile < work.tiles; tile++) {
        copy_async_wait<0>();
        __syncthreads();
        const int at = tile % 2 * STAGE;
        const u32 next = stages + STAGE - at;
        const float *scales = (const float *)(shared + STAGES_AT + at + 2 * STORED_SIDE);
        if (SCALED) {
            widen_tile(shared + STAGES_AT + at, shared + WIDE_AT);
            __syncthreads();
        }
        attend(state, p, work, queries, SCALED ? queries + WIDE_AT : stages + at, scales,
               work.first + tile * KEYS, warp, lane,
               [&](int part) { copies.copy_part(next, part); });
        end_copies(next);
    }
    copy_async_wait<0>();
    const float unit = SCALED ? state.unit : 1.0f;
    write_rows(p, work, state.softmax[0], state.sums[0], unit, warp * 32, lane);
    write_rows(p, work, state.softmax[1], state.sums[1], unit, warp * 32 + 16, lane);
}
