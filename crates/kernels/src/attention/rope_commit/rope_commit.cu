// ptx: f32 -DPAGE=float
// ptx: bf16 -DPAGE=bf16
// ptx: f16 -DPAGE=f16
// ptx: e4m3 -DPAGE=e4m3
// ptx: e5m2 -DPAGE=e5m2
//
// The way from one product to attention: each head of a token is normalised where the model asks
// for it and rotated; queries go to a buffer, keys and values straight to their slots.
//
// Roofline: bound by memory in large batches (each number read and written once); a step of few
// tokens is bound by the latency of one chain of loads.

#include "pages.cuh"
#include "heads.cuh"

typedef PAGE Page;
typedef PageType<Page>::Query Query;

static const int WARPS = 8;

struct RopeCommitParams {
    LayerPages layer;
    LiveHeads live;
    /// i32 [tokens]: -1 for a token whose keys and values are not kept; null: row i goes to slot i.
    const i32 *commit_slots;
    /// Query [tokens, heads, head_dim]
    void *q;
};

DEVICE Head head_of(const RopeCommitParams &p, i32 token, i32 index) {
    const i32 heads = p.live.heads, kv_heads = p.layer.kv_heads;
    if (index < heads) return {token, 0, index};
    if (index < heads + kv_heads) return {token, 1, index - heads};
    return {token, 2, index - heads - kv_heads};
}

/// Writes a key or value to its slot, an fp8 one with its scale.
template <int GROUPS>
DEVICE void commit(const RopeCommitParams &p, const Head &head, i32 slot, Row<GROUPS> &row,
                   int lane) {
    const i32 row_bytes = p.live.head_dim * sizeof(Page);
    const i32 page = (u32)slot / (u32)p.layer.page_tokens;
    const u32 location = row_in_page(p.layer, head.index, slot - page * p.layer.page_tokens);
    u8 *side = p.layer.pages + page_start(p.layer, page) +
               (head.side == 1 ? p.layer.key_offset : p.layer.value_offset);
    if (PageType<Page>::SCALED) {
        float most = 0.0f;
#pragma unroll
        for (int i = 0; i < 4 * GROUPS; i++) most = fmaxf(most, fabsf(row.x[i / 4][i % 4]));
        const float scale = scale_of_row<Page>(warp_max(most));
#pragma unroll
        for (int i = 0; i < 4 * GROUPS; i++) row.x[i / 4][i % 4] = row.x[i / 4][i % 4] / scale;
        if (lane == 0) ((float *)(side + scales_offset(p.layer, row_bytes)))[location] = scale;
    }
    store_head<Page>(p.live, (Page *)(side + (u64)location * row_bytes), row, lane);
}

template <int GROUPS>
DEVICE void take_head(const RopeCommitParams &p, const Head &head, float *shared, int lane) {
    const i32 slot = head.side > 0 && p.commit_slots ? p.commit_slots[head.token] : head.token;
    Row<GROUPS> row = load_head<GROUPS>(p.live, head, lane);
    if (slot < 0) return;
    if (head.side < 2) {
        const float *weight = head.side == 0 ? p.live.q_norm : p.live.k_norm;
        if (weight) normalise(p.live, weight, row, lane);
        rotate(p.live, p.live.angles, head.token, shared, row, lane);
    }
    if (head.side > 0) {
        commit(p, head, slot, row, lane);
    } else {
        const u64 at = ((u64)head.token * p.live.heads + head.index) * p.live.head_dim;
        store_head<Query>(p.live, (Query *)p.q + at, row, lane);
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
    if (index >= p.live.heads + 2 * p.layer.kv_heads) return;
    const Head head = head_of(p, blockIdx.x, index);
    if (p.live.head_dim <= 128) {
        take_head<1>(p, head, rows[warp], lane);
    } else {
        take_head<2>(p, head, rows[warp], lane);
    }
}
