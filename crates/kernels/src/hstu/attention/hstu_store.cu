// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
// ptx: f32 -DACT=float
//
// Brings a step's keys and values from the activations to their slots in pages, those of candidates
// to live pages, with SiLU on the way if the projection left it out.
//
// Bound by memory: each number is read once and written once.

#include "pages.cuh"

#include "silu.cuh"

#include "hstu_pages.cuh"

struct HstuStoreParams {
    const ACT *k, *v;    // [tokens, heads * dim], rows are strided
    const i32 *slots;    // [tokens]: a slot of the kept pages, or -1 - a slot of the live ones
    const i32 *row_seqs; // [tokens]; -1: nothing to do
    PageSide keys, values, live_keys, live_values;
    i32 tokens, k_stride, v_stride, heads;
    /// Threads of one head's row: a power of two.
    i32 lanes;
    i32 page_kind;
    i32 activates;
    /// Whether live pages hold bf16 of what fp8 numbers would be read as.
    i32 widens_live;
    /// Whether eight numbers lie on 16 bytes in the activations, and in pages on what they take.
    i32 by_eight;
};

static const int THREADS = 256;

/// Eight neighbouring numbers of a page.
template <typename Page> DEVICE void store_eight(Page *to, const float x[8]) {
    if constexpr (sizeof(Page) == 1) {
        struct alignas(8) Eight {
            Page number[8];
        } eight;
#pragma unroll
        for (int i = 0; i < 8; i++) eight.number[i] = narrow<Page>(x[i]);
        *(Eight *)to = eight;
    } else {
        float y[8];
#pragma unroll
        for (int i = 0; i < 8; i++) y[i] = widen(narrow<Page>(x[i]));
        store8(to, y);
    }
}

/// A thread's eight numbers of a row: neighbours, or `lanes` apart.
template <typename Page>
DEVICE void store_row(const HstuStoreParams &p, const ACT *from, const PageSide &side, u32 slot,
                      i32 head, int lane, bool is_there, bool is_wide) {
    const i32 page = slot / side.page_tokens, offset = slot % side.page_tokens, dim = side.dim;
    const i32 first = p.by_eight ? 8 * lane : lane, step = p.by_eight ? 1 : p.lanes;
    is_there = is_there && first < dim;
    float x[8] = {}, most = 0.0f;
    if (is_there && p.by_eight) load8(x, from + first);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const i32 column = first + i * step;
        if (is_there && !p.by_eight && column < dim) x[i] = widen(from[column]);
        if (p.activates) x[i] = silu<ACT>(x[i]);
        most = fmaxf(most, fabsf(x[i]));
    }
    if constexpr (PageType<Page>::SCALED) {
        for (int other = p.lanes / 2; other > 0; other /= 2)
            most = fmaxf(most, __shfl_xor_sync(~0u, most, other));
        const float scale = scale_of_row<Page>(most);
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = x[i] / scale;
        if (is_wide) {
#pragma unroll
            for (int i = 0; i < 8; i++) x[i] = widen(narrow<Page>(x[i])) * scale;
            if (is_there) store8(side.row<bf16>(page, offset, head) + first, x);
            return;
        }
        if (is_there && lane == 0) store_scale(side.scale_at(page, offset, head), scale);
    }
    if (!is_there) return;
    Page *to = side.row<Page>(page, offset, head);
    if (p.by_eight) return store_eight(to + first, x);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const i32 column = first + i * step;
        if (column < dim) to[column] = narrow<Page>(x[i]);
    }
}

/// Grid: `lanes` threads for each token, side and head.
KERNEL __launch_bounds__(THREADS) hstu_store(const __grid_constant__ HstuStoreParams p) {
    wait_for_inputs();
    let_next_start();
    const u32 lane = threadIdx.x % p.lanes;
    const u64 row = ((u64)blockIdx.x * THREADS + threadIdx.x) / p.lanes;
    const u32 token = row / (2 * p.heads), part = row % (2 * p.heads);
    // All lanes of a warp go on: they look for the largest number together.
    const bool is_there = token < p.tokens && p.row_seqs[token] >= 0;
    const bool is_value = part >= p.heads;
    const i32 head = part % p.heads, slot = is_there ? p.slots[token] : 0;
    const bool is_live = slot < 0;
    const PageSide side = is_live ? (is_value ? p.live_values : p.live_keys)
                                  : (is_value ? p.values : p.keys);
    const ACT *from = (is_value ? p.v + (u64)token * p.v_stride : p.k + (u64)token * p.k_stride) +
                      head * side.dim;
    const u32 place = is_live ? -1 - slot : slot;
    const bool is_wide = is_live && p.widens_live;
#define STORE(PAGE) store_row<PAGE>(p, from, side, place, head, lane, is_there, is_wide)
    switch (p.page_kind) {
    case PAGE_F32: return STORE(float);
    case PAGE_F16: return STORE(f16);
    case PAGE_BF16: return STORE(bf16);
    case PAGE_E4M3: return STORE(e4m3);
    case PAGE_E5M2: return STORE(e5m2);
    }
#undef STORE
}
