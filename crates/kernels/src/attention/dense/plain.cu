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
// Keys and values of the step's own rows are in their slots, or in the pure form beside the pages,
// as pages of one token each, and no slot that is read is written while this kernel runs.
//
// Roofline: far from it. A key is read again for every head and row, out of the caches.

#include "pages.cuh"

#include "dense_step.cuh"

#include "softmax_stats.cuh"

#include "plain_softmax.cuh"

typedef PAGE Page;
typedef PageType<Page>::Query Query;

struct PlainParams : DenseStep {
    /// The live rows in the batch's order; null pages where they are in their slots.
    LayerPages live;
};

/// The keys that one row sees: `first..end`, those from `live` on beside the pages.
struct RowKeys {
    const i32 *table;
    i32 kv_head, first, end, live;
    /// From a position to its live row.
    i32 live_row;
};

/// Where a key lies, and how many bytes further on its value and its scale do. The value's scale is
/// as far from the value.
struct KeyLocation {
    const u8 *key;
    u32 to_value, to_scale;
};

DEVICE KeyLocation locate_in(const LayerPages &pages, i32 page, u32 row, i32 row_bytes) {
    const u8 *keys = pages.pages + page_start(pages, page) + pages.key_offset;
    return {keys + (u64)row * row_bytes, (u32)(pages.value_offset - pages.key_offset),
            (u32)scales_offset(pages, row_bytes) - row * (row_bytes - 4)};
}

DEVICE KeyLocation locate(const PlainParams &p, const RowKeys &keys, i32 position) {
    const i32 row_bytes = p.head_dim * sizeof(Page);
    if (keys.live <= position)
        return locate_in(p.live, keys.live_row + position, keys.kv_head, row_bytes);
    const u32 logical = (u32)position / (u32)p.layer.page_tokens;
    const i32 offset = position - logical * p.layer.page_tokens;
    return locate_in(p.layer, keys.table[logical], row_in_page(p.layer, keys.kv_head, offset),
                     row_bytes);
}

/// A row of a page, widened; its scale included.
template <int NUMBERS>
DEVICE void load_row(const u8 *row, u32 to_scale, i32 head_dim, float x[NUMBERS], int lane) {
    const Page *from = (const Page *)row;
    const float scale = PageType<Page>::SCALED ? *(const float *)(row + to_scale) : 1.0f;
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) {
        const i32 number = lane + 32 * i;
        x[i] = number < head_dim ? widen(from[number]) * scale : 0.0f;
    }
}

/// Takes `KEYS` keys from `start` on, of which those in `keys.first..keys.end` are visible.
template <int NUMBERS>
DEVICE void attend(State<NUMBERS> &state, const PlainParams &p, const RowKeys &keys,
                   const float q[NUMBERS], i32 start, int lane) {
    const i32 own = min(max(start + lane % KEYS, keys.first), keys.end - 1);
    const KeyLocation location = locate(p, keys, own);
    // The location's parts, as lane `key` has them.
    const auto key_of = [&](int key) {
        return (const u8 *)__shfl_sync(~0u, (u64)location.key, key);
    };
    const auto to_value = [&](int key) { return __shfl_sync(~0u, location.to_value, key); };
    const auto to_scale = [&](int key) { return __shfl_sync(~0u, location.to_scale, key); };
    float s[KEYS], x[NUMBERS];
    float most = state.largest;
#pragma unroll
    for (int key = 0; key < KEYS; key++) {
        load_row<NUMBERS>(key_of(key), to_scale(key), p.head_dim, x, lane);
        float product = 0.0f;
#pragma unroll
        for (int i = 0; i < NUMBERS; i++) product += q[i] * x[i];
        s[key] = warp_sum(product) * p.scale;
        const bool is_visible = keys.first <= start + key && start + key < keys.end;
        s[key] = is_visible ? s[key] : MINUS_INFINITY;
        most = fmaxf(most, s[key]);
    }
    if (most == MINUS_INFINITY) return;
    raise_largest<NUMBERS>(state, most);
#pragma unroll
    for (int key = 0; key < KEYS; key++) {
        load_row<NUMBERS>(key_of(key) + to_value(key), to_scale(key), p.head_dim, x, lane);
        add_value<NUMBERS>(state, s[key], x);
    }
}

DEVICE RowKeys keys_of_row(const PlainParams &p, const RowLocation &location, i32 row, i32 head) {
    const i32 end = location.position + 1;
    const i32 first = p.window > 0 ? max(0, end - p.window) : 0;
    const i32 live = p.live.pages ? location.past : end;
    const i32 *table = p.block_tables + (u64)location.seq * p.table_stride;
    return {table, head / p.group, first, end, live, row - location.position};
}

template <int NUMBERS> DEVICE void plain_attention(const PlainParams &p) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_inputs();
    let_next_start();
    const i32 head = blockIdx.x, row = blockIdx.y;
    const u64 at = ((u64)row * p.layer.kv_heads * p.group + head) * p.head_dim;
    const RowLocation location = locate_row(row, p.row_seqs, p.live_starts, p.past_tokens);
    const OutHead out = {p.out, p.out_type, at, p.head_dim};
    if (location.seq < 0) return out.write_zeros();
    const RowKeys keys = keys_of_row(p, location, row, head);
    float q[NUMBERS];
    State<NUMBERS> state = empty_state<NUMBERS>();
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) {
        const i32 number = lane + 32 * i;
        q[i] = number < p.head_dim ? widen(((const Query *)p.q)[at + number]) : 0.0f;
    }
    for (i32 start = keys.first / ROUND * ROUND + warp * KEYS; start < keys.end; start += ROUND)
        attend<NUMBERS>(state, p, keys, q, start, lane);
    merge_warps<NUMBERS>(state, out, warp, lane);
}

/// For heads of up to 64, 128 and 256 numbers.
PLAIN_KERNEL(plain_attention_64, PlainParams, plain_attention<2>)
PLAIN_KERNEL(plain_attention_128, PlainParams, plain_attention<4>)
PLAIN_KERNEL(plain_attention_256, PlainParams, plain_attention<8>)
