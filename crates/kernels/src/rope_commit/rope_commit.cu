// ptx: f32 -DPAGE=float
// ptx: bf16 -DPAGE=bf16
// ptx: f16 -DPAGE=f16
// ptx: e4m3 -DPAGE=e4m3
// ptx: e5m2 -DPAGE=e5m2
//
// The way from one product to attention: each head of a token is normalised where the model asks
// for it and rotated; queries go to a buffer, keys and values straight to their slots.
//
// One warp a head. A lane holds four neighbouring numbers, twice for heads over 128.
//
// Roofline: bound by memory in large batches (each number read and written once); a step of few
// tokens is bound by the latency of one chain of loads.

#include "pages.cuh"

typedef PAGE Page;
typedef PageType<Page>::Query Query;

static const int WARPS = 8;
static const int HEAD_DIM_MAX = 256;

struct RopeCommitParams {
    LayerPages layer;
    /// f32 or bf16 [tokens, row_stride], with queries, keys and values from these columns on.
    const void *qkv;
    /// f32 [tokens, rotary_dim / 2]
    const float *cos, *sin;
    /// f32 [head_dim], or null for none.
    const float *q_norm, *k_norm;
    /// i32 [tokens]: -1 for a token whose keys and values are not kept.
    const i32 *commit_slots;
    /// Query [tokens, heads, head_dim]
    void *q;
    i32 heads, head_dim, rotary_dim;
    i32 row_stride, q_column, k_column, v_column;
    i32 is_interleaved, qkv_is_f32;
    float eps;
};

/// Which head of which token a warp has.
struct Head {
    i32 token;
    /// 0 query, 1 key, 2 value, and the index among those.
    i32 side, index;
};

DEVICE Head head_of(const RopeCommitParams &p, i32 token, i32 index) {
    const i32 kv_heads = p.layer.kv_heads;
    if (index < p.heads) return {token, 0, index};
    if (index < p.heads + kv_heads) return {token, 1, index - p.heads};
    return {token, 2, index - p.heads - kv_heads};
}

/// Whether four neighbours can be read and written at once, as in all models that are known.
DEVICE bool in_fours(const RopeCommitParams &p) {
    return ((p.head_dim | p.row_stride | p.q_column | p.k_column | p.v_column) & 3) == 0;
}
template <typename T> DEVICE void load(float x[4], const T *from, i32 count, bool in_fours) {
    if (in_fours) return load_four<T>(x, from);
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = i < count ? widen(from[i]) : 0.0f;
}
template <typename T> DEVICE void store(T *to, const float x[4], i32 count, bool in_fours) {
    if (in_fours) return store_four<T>(to, x);
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < count) to[i] = narrow<T>(x[i]);
}

/// One head, of which a lane has `GROUPS` times four neighbours. Numbers past its end are zeros.
template <int GROUPS> struct Row {
    float x[GROUPS][4];
};

template <int GROUPS>
DEVICE Row<GROUPS> load_head(const RopeCommitParams &p, const Head &head, int lane) {
    const i32 column = head.side == 0 ? p.q_column : head.side == 1 ? p.k_column : p.v_column;
    const u64 start = (u64)head.token * p.row_stride + column + head.index * p.head_dim;
    Row<GROUPS> row = {};
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at >= p.head_dim) continue;
        const i32 count = p.head_dim - at;
        if (p.qkv_is_f32) {
            load(row.x[group], (const float *)p.qkv + start + at, count, in_fours(p));
        } else {
            load(row.x[group], (const bf16 *)p.qkv + start + at, count, in_fours(p));
        }
    }
    return row;
}

template <int GROUPS>
DEVICE void normalise(const RopeCommitParams &p, const float *weight, Row<GROUPS> &row, int lane) {
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 4 * GROUPS; i++) squares += row.x[i / 4][i % 4] * row.x[i / 4][i % 4];
    const float factor = 1.0f / sqrtf(warp_sum(squares) / (float)p.head_dim + p.eps);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at >= p.head_dim) continue;
        float w[4];
        load(w, weight + at, p.head_dim - at, in_fours(p));
#pragma unroll
        for (int i = 0; i < 4; i++) row.x[group][i] = w[i] * (row.x[group][i] * factor);
    }
}

/// One of a pair: `x` turned by an angle, `partner` the other of the pair. Without fused
/// operations, because the CPU's reference rounds as often.
DEVICE float turn(float x, float partner, bool is_second, float cos, float sin) {
    const float kept = __fmul_rn(x, cos), turned = __fmul_rn(partner, sin);
    return is_second ? __fadd_rn(kept, turned) : __fsub_rn(kept, turned);
}

/// Turns the pairs of neighbours.
template <int GROUPS>
DEVICE void rotate_interleaved(const RopeCommitParams &p, i32 token, Row<GROUPS> &row, int lane) {
    const u64 angles = (u64)token * (p.rotary_dim / 2);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        float *x = row.x[group];
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            if (at + i >= p.rotary_dim) continue;
            const float cos = p.cos[angles + (at + i) / 2], sin = p.sin[angles + (at + i) / 2];
            const float first = turn(x[i], x[i + 1], false, cos, sin);
            x[i + 1] = turn(x[i + 1], x[i], true, cos, sin);
            x[i] = first;
        }
    }
}

/// Turns pairs that lie half a rotation apart; `shared` takes the row, since the other half of a
/// lane's pairs is another lane's.
template <int GROUPS>
DEVICE void rotate_halves_singly(const RopeCommitParams &p, i32 token, float *shared,
                                 Row<GROUPS> &row, int lane) {
    const i32 pairs = p.rotary_dim / 2;
#pragma unroll
    for (int group = 0; group < GROUPS; group++)
        store_four<float>(shared + 128 * group + 4 * lane, row.x[group]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4 * GROUPS; i++) {
        const i32 at = i / 4 * 128 + 4 * lane + i % 4;
        if (at >= p.rotary_dim) continue;
        const bool is_second = pairs <= at;
        const i32 partner = is_second ? at - pairs : at + pairs;
        const u64 angle = (u64)token * pairs + (is_second ? partner : at);
        float &x = row.x[i / 4][i % 4];
        x = turn(x, shared[partner], is_second, p.cos[angle], p.sin[angle]);
    }
}

/// The same where four neighbours are in the same half.
template <int GROUPS>
DEVICE void rotate_halves(const RopeCommitParams &p, i32 token, float *shared, Row<GROUPS> &row,
                          int lane) {
    const i32 pairs = p.rotary_dim / 2;
    float cos[GROUPS][4], sin[GROUPS][4];
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at >= p.rotary_dim) continue;
        const u64 angle = (u64)token * pairs + (at < pairs ? at : at - pairs);
        load_four<float>(cos[group], p.cos + angle);
        load_four<float>(sin[group], p.sin + angle);
        store_four<float>(shared + at, row.x[group]);
    }
    __syncwarp();
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at >= p.rotary_dim) continue;
        const bool is_second = pairs <= at;
        float partner[4];
        load_four<float>(partner, shared + (is_second ? at - pairs : at + pairs));
#pragma unroll
        for (int i = 0; i < 4; i++)
            row.x[group][i] =
                turn(row.x[group][i], partner[i], is_second, cos[group][i], sin[group][i]);
    }
}

/// Writes numbers to where the row begins.
template <typename T, int GROUPS>
DEVICE void store_head(const RopeCommitParams &p, T *to, const Row<GROUPS> &row, int lane) {
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at < p.head_dim) store(to + at, row.x[group], p.head_dim - at, in_fours(p));
    }
}

/// Writes a key or value to its slot, an fp8 one with its scale.
template <int GROUPS>
DEVICE void commit(const RopeCommitParams &p, const Head &head, i32 slot, Row<GROUPS> &row,
                   int lane) {
    const i32 row_bytes = p.head_dim * sizeof(Page);
    const i32 page = (u32)slot / (u32)p.layer.page_tokens;
    const u32 place = row_in_page(p.layer, head.index, slot - page * p.layer.page_tokens);
    u8 *side = p.layer.pages + page_start(p.layer, page) +
               (head.side == 1 ? p.layer.key_offset : p.layer.value_offset);
    if (PageType<Page>::SCALED) {
        float most = 0.0f;
#pragma unroll
        for (int i = 0; i < 4 * GROUPS; i++) most = fmaxf(most, fabsf(row.x[i / 4][i % 4]));
        const float scale = scale_of_row<Page>(warp_max(most));
#pragma unroll
        for (int i = 0; i < 4 * GROUPS; i++) row.x[i / 4][i % 4] = row.x[i / 4][i % 4] / scale;
        if (lane == 0) ((float *)(side + scales_offset(p.layer, row_bytes)))[place] = scale;
    }
    store_head<Page>(p, (Page *)(side + (u64)place * row_bytes), row, lane);
}

template <int GROUPS>
DEVICE void take_head(const RopeCommitParams &p, const Head &head, float *shared, int lane) {
    const i32 slot = head.side == 0 ? 0 : p.commit_slots[head.token];
    Row<GROUPS> row = load_head<GROUPS>(p, head, lane);
    if (slot < 0) return;
    if (head.side < 2) {
        const float *weight = head.side == 0 ? p.q_norm : p.k_norm;
        if (weight) normalise(p, weight, row, lane);
        if (p.is_interleaved) rotate_interleaved(p, head.token, row, lane);
        else if (p.rotary_dim % 8 == 0) rotate_halves(p, head.token, shared, row, lane);
        else rotate_halves_singly(p, head.token, shared, row, lane);
    }
    if (head.side > 0) {
        commit(p, head, slot, row, lane);
    } else {
        const u64 at = ((u64)head.token * p.heads + head.index) * p.head_dim;
        store_head<Query>(p, (Query *)p.q + at, row, lane);
    }
}

/// Grid: tokens, and enough blocks of `WARPS` heads for queries, keys and values.
KERNEL __launch_bounds__(WARPS * 32) rope_commit(const __grid_constant__ RopeCommitParams p) {
    __shared__ alignas(16) float rows[WARPS][HEAD_DIM_MAX];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const i32 index = blockIdx.y * WARPS + warp;
    // In this order: attention reads the keys of earlier steps before it waits for this kernel.
    wait_for_inputs();
    let_next_start();
    if (index >= p.heads + 2 * p.layer.kv_heads) return;
    const Head head = head_of(p, blockIdx.x, index);
    if (p.head_dim <= 128) {
        take_head<1>(p, head, rows[warp], lane);
    } else {
        take_head<2>(p, head, rows[warp], lane);
    }
}
