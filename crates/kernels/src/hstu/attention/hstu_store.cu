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
    /// Whether live pages hold bf16 of what numbers of a byte would be read as.
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

/// A thread's eight numbers of one head's row: neighbours, or `lanes` apart.
struct RowPart {
    float x[8];
    i32 first, step, dim;

    DEVICE bool has(int i) const { return first + i * step < dim; }

    DEVICE RowPart(const HstuStoreParams &p, const ACT *from, i32 dim, int lane, bool is_there)
        : x{}, first(p.by_eight ? 8 * lane : lane), step(p.by_eight ? 1 : p.lanes), dim(dim) {
        if (!is_there || !has(0)) return;
        if (p.by_eight) {
            load8(x, from + first);
            return;
        }
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (has(i)) x[i] = widen(from[first + i * step]);
    }
};

template <typename Page>
DEVICE void store_row(const HstuStoreParams &p, RowPart &part, const PageSide &side, u32 slot,
                      i32 head, int lane, bool is_there, bool is_wide) {
    const i32 page = slot / side.page_tokens, offset = slot % side.page_tokens;
    float(&x)[8] = part.x, most = 0.0f;
    is_there = is_there && part.has(0);
#pragma unroll
    for (int i = 0; i < 8; i++) {
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
            if (is_there) store8(side.row<bf16>(page, offset, head) + part.first, x);
            return;
        }
        if (is_there && lane == 0) store_scale(side.scale_at(page, offset, head), scale);
    }
    if (!is_there) return;
    Page *to = side.row<Page>(page, offset, head);
    if (p.by_eight) return store_eight(to + part.first, x);
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (part.has(i)) to[part.first + i * part.step] = narrow<Page>(x[i]);
}

template <typename Page> DEVICE void store_token(const HstuStoreParams &p) {
    const u32 lane = threadIdx.x % p.lanes, rows = THREADS / p.lanes;
    const u32 row = blockIdx.x * rows + threadIdx.x / p.lanes;
    const u32 token = row / p.heads;
    const i32 head = row % p.heads;
    // All lanes of a warp go on: they look for the largest number together. What is read does not
    // wait for where it goes.
    bool is_there = token < p.tokens;
    const u64 at = is_there ? token : 0;
    RowPart key(p, p.k + at * p.k_stride + head * p.keys.dim, p.keys.dim, lane, is_there);
    RowPart value(p, p.v + at * p.v_stride + head * p.values.dim, p.values.dim, lane, is_there);
    const i32 seq = p.row_seqs[at], slot = p.slots[at];
    is_there = is_there && seq >= 0;
    const bool is_live = slot < 0, is_wide = is_live && p.widens_live;
    const u32 place = is_live ? -1 - slot : slot;
    const PageSide &keys = is_live ? p.live_keys : p.keys;
    const PageSide &values = is_live ? p.live_values : p.values;
    store_row<Page>(p, key, keys, place, head, lane, is_there, is_wide);
    store_row<Page>(p, value, values, place, head, lane, is_there, is_wide);
}

/// Grid: `lanes` threads for each token and head.
KERNEL __launch_bounds__(THREADS) hstu_store(const __grid_constant__ HstuStoreParams p) {
    let_next_start();
    wait_for_inputs();
    switch (p.page_kind) {
    case PAGE_F32: return store_token<float>(p);
    case PAGE_F16: return store_token<f16>(p);
    case PAGE_BF16: return store_token<bf16>(p);
    case PAGE_E4M3: return store_token<e4m3>(p);
    case PAGE_E5M2: return store_token<e5m2>(p);
    case PAGE_INT8: return store_token<int8>(p);
    }
}
