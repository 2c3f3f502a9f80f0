// ptx: f32 -DPAGE=float
// ptx: bf16 -DPAGE=bf16
// ptx: f16 -DPAGE=f16
// ptx: e4m3 -DPAGE=e4m3
// ptx: e5m2 -DPAGE=e5m2
//
// Attention for what the tensor-core kernels do not take: f32 pages, and heads of other widths up
// to 256. All arithmetic is in f32, with the softmax's exponential to its last digits.
//
// See plain_softmax.cuh, which has what it shares with slot_plain.cu. Which keys a warp sums in
// which order follows from their positions alone.
//
// Roofline: far from it. A key is read again for every head and row, out of the caches.

#include "pages.cuh"

#include "softmax_stats.cuh"

#include "plain_softmax.cuh"

typedef PAGE Page;
typedef PageType<Page>::Query Query;

struct PlainParams {
    LayerPages layer;
    /// Query [rows, heads, head_dim]
    const Query *q;
    /// i32 [seqs, table_stride], i32 [seqs] (-1: no sequence)
    const i32 *block_tables, *past_tokens;
    /// i32 [rows], or null: row i is the next token of sequence i; and i32 [seqs + 1].
    const i32 *row_seqs, *live_starts;
    /// f32 or bf16 [rows, heads, head_dim]
    void *out;
    i32 table_stride, group, window, head_dim, out_is_f32;
    float scale;
};

/// Where a key lies: its page's start, and its row there.
struct KeyLocation {
    u64 page;
    u32 row;
};

DEVICE KeyLocation locate(const PlainParams &p, const i32 *table, i32 position, i32 kv_head) {
    const u32 logical = (u32)position / (u32)p.layer.page_tokens;
    const i32 offset = position - logical * p.layer.page_tokens;
    return {page_start(p.layer, table[logical]), row_in_page(p.layer, kv_head, offset)};
}

/// A row of a page, widened; its scale included.
template <int NUMBERS>
DEVICE void load_row(const PlainParams &p, u64 side, u64 page, u32 row, float x[NUMBERS],
                     int lane) {
    const u8 *base = p.layer.pages + page + side;
    const i32 row_bytes = p.head_dim * sizeof(Page);
    const Page *from = (const Page *)(base + (u64)row * row_bytes);
    float scale = 1.0f;
    if (PageType<Page>::SCALED)
        scale = ((const float *)(base + scales_offset(p.layer, row_bytes)))[row];
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) {
        const i32 number = lane + 32 * i;
        x[i] = number < p.head_dim ? widen(from[number]) * scale : 0.0f;
    }
}

/// Takes `KEYS` keys from `start` on, of which those in `first..end` are visible.
template <int NUMBERS>
DEVICE void attend(State<NUMBERS> &state, const PlainParams &p, const i32 *table, i32 kv_head,
                   const float q[NUMBERS], i32 start, i32 first, i32 end, int lane) {
    const i32 own = min(max(start + lane % KEYS, first), end - 1);
    const KeyLocation location = locate(p, table, own, kv_head);
    float s[KEYS];
    float most = state.largest;
#pragma unroll
    for (int key = 0; key < KEYS; key++) {
        float x[NUMBERS];
        const u64 page = __shfl_sync(~0u, location.page, key);
        const u32 row = __shfl_sync(~0u, location.row, key);
        load_row<NUMBERS>(p, p.layer.key_offset, page, row, x, lane);
        float product = 0.0f;
#pragma unroll
        for (int i = 0; i < NUMBERS; i++) product += q[i] * x[i];
        s[key] = warp_sum(product) * p.scale;
        const bool is_visible = first <= start + key && start + key < end;
        s[key] = is_visible ? s[key] : MINUS_INFINITY;
        most = fmaxf(most, s[key]);
    }
    if (most == MINUS_INFINITY) return;
    raise_largest<NUMBERS>(state, most);
#pragma unroll
    for (int key = 0; key < KEYS; key++) {
        float x[NUMBERS];
        const u64 page = __shfl_sync(~0u, location.page, key);
        const u32 row = __shfl_sync(~0u, location.row, key);
        load_row<NUMBERS>(p, p.layer.value_offset, page, row, x, lane);
        add_value<NUMBERS>(state, s[key], x);
    }
}

template <int NUMBERS> DEVICE void plain_attention(const PlainParams &p) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_inputs();
    let_next_start();
    const i32 head = blockIdx.x, row = blockIdx.y;
    const u64 at = ((u64)row * p.layer.kv_heads * p.group + head) * p.head_dim;
    const RowLocation location = locate_row(row, p.row_seqs, p.live_starts, p.past_tokens);
    const OutHead out = {p.out, p.out_is_f32, at, p.head_dim};
    if (location.seq < 0) return out.write_zeros();
    const i32 end = location.position + 1;
    const i32 first = p.window > 0 ? max(0, end - p.window) : 0;
    const i32 *table = p.block_tables + (u64)location.seq * p.table_stride;
    float q[NUMBERS];
    State<NUMBERS> state = empty_state<NUMBERS>();
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) {
        const i32 number = lane + 32 * i;
        q[i] = number < p.head_dim ? widen(p.q[at + number]) : 0.0f;
    }
    for (i32 start = first / ROUND * ROUND + warp * KEYS; start < end; start += ROUND)
        attend<NUMBERS>(state, p, table, head / p.group, q, start, first, end, lane);
    merge_warps<NUMBERS>(state, out, warp, lane);
}

/// For heads of up to 64, 128 and 256 numbers.
KERNEL __launch_bounds__(WARPS * 32) plain_attention_64(const __grid_constant__ PlainParams p) {
    plain_attention<2>(p);
}
KERNEL __launch_bounds__(WARPS * 32) plain_attention_128(const __grid_constant__ PlainParams p) {
    plain_attention<4>(p);
}
KERNEL __launch_bounds__(WARPS * 32) plain_attention_256(const __grid_constant__ PlainParams p) {
    plain_attention<8>(p);
}
