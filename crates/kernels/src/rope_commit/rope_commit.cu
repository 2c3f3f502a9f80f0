// ptx: f32 -DPAGE=float
// ptx: bf16 -DPAGE=bf16
// ptx: f16 -DPAGE=f16
// ptx: e4m3 -DPAGE=e4m3
// ptx: e5m2 -DPAGE=e5m2
//
// The way from one product to attention: each head of a token is normalised where the model asks
// for it and rotated; queries go to a buffer, keys and values straight to their slots.
//
// One warp a head. A lane holds four neighbouring numbers (twice for heads over 128); the row lies
// in shared memory while it is rotated, because its pairs are in other lanes.
//
// Roofline: bound by memory in large batches (each number read and written once); a step of few
// tokens is bound by the latency of one chain of loads.

#include "pages.cuh"

typedef PAGE Page;
typedef PageType<Page>::Query Query;

static const int WARPS = 8;
static const int HEAD_DIM_MAX = 256;
static const int GROUPS = HEAD_DIM_MAX / 128;

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
    i32 tokens, heads, head_dim, rotary_dim;
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

DEVICE Head head_of(const RopeCommitParams &p, i32 item) {
    const i32 kv_heads = p.layer.kv_heads;
    const i32 all = p.heads + 2 * kv_heads;
    const i32 index = item % all;
    if (index < p.heads) return {item / all, 0, index};
    const i32 past_queries = index - p.heads;
    return {item / all, 1 + past_queries / kv_heads, past_queries % kv_heads};
}

DEVICE void load_head(const RopeCommitParams &p, const Head &head, float x[GROUPS][4], int lane) {
    const i32 column = head.side == 0 ? p.q_column : head.side == 1 ? p.k_column : p.v_column;
    const u64 start = (u64)head.token * p.row_stride + column + head.index * p.head_dim;
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
#pragma unroll
        for (int i = 0; i < 4; i++) x[group][i] = 0.0f;
        if (at >= p.head_dim) continue;
        if (p.qkv_is_f32) {
            load_four<float>(x[group], (const float *)p.qkv + start + at);
        } else {
            load_four<bf16>(x[group], (const bf16 *)p.qkv + start + at);
        }
    }
}

DEVICE void normalise(const RopeCommitParams &p, const float *weight, float x[GROUPS][4],
                      int lane) {
    float squares = 0.0f;
#pragma unroll
    for (int group = 0; group < GROUPS; group++)
#pragma unroll
        for (int i = 0; i < 4; i++) squares += x[group][i] * x[group][i];
    const float factor = 1.0f / sqrtf(warp_sum(squares) / (float)p.head_dim + p.eps);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at >= p.head_dim) continue;
        float w[4];
        load_four<float>(w, weight + at);
#pragma unroll
        for (int i = 0; i < 4; i++) x[group][i] = w[i] * (x[group][i] * factor);
    }
}

/// Where number `at` of a head stands in its pair.
struct InPair {
    bool is_second;
    i32 pair, partner;
};

DEVICE InPair in_pair(const RopeCommitParams &p, i32 at) {
    const i32 pairs = p.rotary_dim / 2;
    if (p.is_interleaved) return {at % 2 == 1, at / 2, at ^ 1};
    return at < pairs ? InPair{false, at, at + pairs} : InPair{true, at - pairs, at - pairs};
}

/// Turns the pairs of a head, without fused operations: the CPU's reference rounds as often.
DEVICE void rotate(const RopeCommitParams &p, i32 token, float *row, float x[GROUPS][4],
                   int lane) {
    const u64 angles = (u64)token * (p.rotary_dim / 2);
    float cos[GROUPS][4], sin[GROUPS][4];
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const bool turns = at + i < p.rotary_dim;
            const i32 pair = in_pair(p, at + i).pair;
            cos[group][i] = turns ? p.cos[angles + pair] : 1.0f;
            sin[group][i] = turns ? p.sin[angles + pair] : 0.0f;
        }
        if (at < p.head_dim) store_four<float>(row + at, x[group]);
    }
    __syncwarp();
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const i32 at = 128 * group + 4 * lane + i;
            if (at >= p.rotary_dim) continue;
            const InPair place = in_pair(p, at);
            const float turned = __fmul_rn(row[place.partner], sin[group][i]);
            const float kept = __fmul_rn(x[group][i], cos[group][i]);
            x[group][i] = place.is_second ? __fadd_rn(kept, turned) : __fsub_rn(kept, turned);
        }
    }
}

/// Writes a key or value to its slot, an fp8 one with its scale.
DEVICE void commit(const RopeCommitParams &p, const Head &head, i32 slot, float x[GROUPS][4],
                   int lane) {
    const i32 row_bytes = p.head_dim * sizeof(Page);
    const i32 page = slot / p.layer.page_tokens;
    const u32 row = row_in_page(p.layer, head.index, slot - page * p.layer.page_tokens);
    u8 *side = p.layer.pages + page_start(p.layer, page) +
               (head.side == 1 ? p.layer.key_offset : p.layer.value_offset);
    if (PageType<Page>::SCALED) {
        float most = 0.0f;
#pragma unroll
        for (int group = 0; group < GROUPS; group++)
#pragma unroll
            for (int i = 0; i < 4; i++) most = fmaxf(most, fabsf(x[group][i]));
        const float scale = scale_of_row<Page>(warp_max(most));
#pragma unroll
        for (int group = 0; group < GROUPS; group++)
#pragma unroll
            for (int i = 0; i < 4; i++) x[group][i] = x[group][i] / scale;
        if (lane == 0) ((float *)(side + scales_offset(p.layer, row_bytes)))[row] = scale;
    }
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at < p.head_dim) store_four<Page>((Page *)(side + (u64)row * row_bytes) + at, x[group]);
    }
}

KERNEL __launch_bounds__(WARPS * 32) rope_commit(const __grid_constant__ RopeCommitParams p) {
    __shared__ alignas(16) float rows[WARPS][HEAD_DIM_MAX];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Head head = head_of(p, blockIdx.x * WARPS + warp);
    // In this order: attention reads the keys of earlier steps before it waits for this kernel.
    wait_for_inputs();
    let_next_start();
    if (head.token >= p.tokens) return;
    const i32 slot = head.side == 0 ? 0 : p.commit_slots[head.token];
    float x[GROUPS][4];
    load_head(p, head, x, lane);
    if (slot < 0) return;
    if (head.side < 2) {
        const float *weight = head.side == 0 ? p.q_norm : p.k_norm;
        if (weight) normalise(p, weight, x, lane);
        rotate(p, head.token, rows[warp], x, lane);
    }
    if (head.side > 0) {
        commit(p, head, slot, x, lane);
        return;
    }
    Query *q = (Query *)p.q + ((u64)head.token * p.heads + head.index) * p.head_dim;
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at < p.head_dim) store_four<Query>(q + at, x[group]);
    }
}
