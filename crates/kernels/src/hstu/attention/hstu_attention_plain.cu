// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
// ptx: f32 -DACT=float
//
// HSTU's attention of any shape, by plain loops: what hstu_attention_hopper.cu does, for pages of
// any type, keys and values of other widths than each other, and with a bias by how far apart row
// and key are in position and in time:
//
//     out[row] = factor * sum over visible keys of silu(alpha * q . k + bias(row, key)) * v
//     bias(row, key) = by_position[(n - 1) + key - row] + by_time[bucket(row's time - key's time)]
//
// Weights are rounded to the type of the activations. A block has one row and one head. Keys come
// in blocks cut at multiples of their size, in ascending order: the result of a row does not
// depend on its chunk.

#include "pages.cuh"

#include "silu.cuh"

#include "hstu_pages.cuh"

/// All null where there is none.
struct HstuBias {
    const float *by_position; // [positions], the middle one for a distance of 0
    const float *by_time;     // [edges + 1], or more
    const i64 *edges;         // [edges]: the least difference of each bucket after the first
    const i64 *key_times;     // [seqs, times_stride], by position
    const i64 *row_times;     // [tokens]
    i32 middle, edge_count, times_stride, unused;
};

struct HstuPlainParams {
    const ACT *q; // [tokens, heads * key_dim], rows are strided
    ACT *out;     // [tokens, heads * value_dim], likewise
    PageSide keys, values, live_keys, live_values;
    const i32 *block_tables, *live_tables; // [seqs, table_pages], [seqs, live_table_pages]
    const i32 *row_seqs;                   // [tokens]; -1: nothing to do
    const i32 *past_tokens, *live_starts, *history_rows; // of each sequence
    const i32 *spans;         // [tokens, 4], as of hstu_attention_hopper.cu
    const float *row_factors; // [tokens], or null: `factor` for all
    HstuBias bias;
    i32 q_stride, out_stride;
    i32 table_pages, live_table_pages;
    i32 page_kind;
    i32 activates;
    float alpha, factor;
    /// Whether rows of the history have nothing to do.
    i32 only_candidates;
};

static const int THREADS = 128;
static const int HEAD_DIM_MOST = 256;
static const int COLUMNS = HEAD_DIM_MOST / THREADS;

/// The size of a - b, at most the largest number.
DEVICE i64 distance(i64 a, i64 b) {
    const u64 size = a > b ? (u64)a - (u64)b : (u64)b - (u64)a;
    const u64 most = ~0ull >> 1;
    return size < most ? size : most;
}

/// A row and its head, with what there is to know of its sequence.
struct RowWork {
    i32 row, seq, head;
    /// Of the row, and of the first candidate.
    i32 position, first_candidate;

    DEVICE RowWork(const HstuPlainParams &p)
        : row(blockIdx.x), seq(p.row_seqs[blockIdx.x]), head(blockIdx.y) {
        if (seq < 0) return;
        const i32 past = p.past_tokens[seq];
        position = past + row - p.live_starts[seq];
        first_candidate = past + p.history_rows[seq];
    }

    DEVICE float bias(const HstuBias &bias, i32 key) const {
        const i64 key_time = bias.key_times[(i64)seq * bias.times_stride + key];
        const i64 apart = distance(bias.row_times[row], key_time);
        i32 bucket = 0, end = bias.edge_count;
        while (bucket < end) {
            const i32 middle = (bucket + end) / 2;
            if (bias.edges[middle] <= apart) bucket = middle + 1;
            else end = middle;
        }
        return bias.by_time[bucket] + bias.by_position[bias.middle + key - position];
    }
};

/// The history or the candidates: where they lie, and what the row sees of them.
struct Keys {
    const PageSide &keys, &values;
    const i32 *table;
    i32 begin, end;
    /// Of key 0.
    i32 first_position;
};

template <typename Page>
DEVICE float weight_of(const HstuPlainParams &p, const RowWork &work, const Keys &seen,
                       const float *query, i32 key) {
    const PageSide &side = seen.keys;
    const i32 page = seen.table[key / side.page_tokens], offset = key % side.page_tokens;
    const Page *k = side.row<Page>(page, offset, work.head);
    float dot = 0.0f;
    for (i32 i = 0; i < side.dim; i++) dot = __fmaf_rn(query[i], widen(k[i]), dot);
    dot *= scale_of<Page>(side, page, offset, work.head);
    float score = p.alpha * dot;
    if (p.bias.by_time) score += work.bias(p.bias, seen.first_position + key);
    return widen(round_to<ACT>(silu<float>(score)));
}

template <typename Page>
DEVICE void add_keys(float (&sums)[COLUMNS], const HstuPlainParams &p, const RowWork &work,
                     const Keys &seen, const float *query, float *weights) {
    const PageSide &side = seen.values;
    for (i32 start = seen.begin - seen.begin % THREADS; start < seen.end; start += THREADS) {
        const i32 key = start + threadIdx.x;
        __syncthreads();
        if (seen.begin <= key && key < seen.end)
            weights[threadIdx.x] = weight_of<Page>(p, work, seen, query, key);
        __syncthreads();
        const i32 from = max(start, seen.begin), to = min(start + THREADS, seen.end);
        for (i32 other = from; other < to; other++) {
            const i32 page = seen.table[other / side.page_tokens];
            const i32 offset = other % side.page_tokens;
            const Page *v = side.row<Page>(page, offset, work.head);
            const float scale = scale_of<Page>(side, page, offset, work.head);
            const float weight = weights[other - start];
#pragma unroll
            for (int i = 0; i < COLUMNS; i++) {
                const i32 column = threadIdx.x + i * THREADS;
                if (column < side.dim)
                    sums[i] = __fmaf_rn(weight, widen(v[column]) * scale, sums[i]);
            }
        }
    }
}

template <typename Page> DEVICE void attend_row(const HstuPlainParams &p, const RowWork &work) {
    __shared__ float query[HEAD_DIM_MOST], weights[THREADS];
    const ACT *q = p.q + (i64)work.row * p.q_stride + work.head * p.keys.dim;
    for (i32 i = threadIdx.x; i < p.keys.dim; i += THREADS) {
        const float x = widen(q[i]);
        query[i] = p.activates ? widen(round_to<ACT>(silu<ACT>(x))) : x;
    }
    const i32 *span = p.spans + 4 * (i64)work.row;
    const Keys history = {p.keys, p.values, p.block_tables + (i64)work.seq * p.table_pages,
                          span[0], span[1], 0};
    const Keys candidates = {p.live_keys, p.live_values,
                             p.live_tables + (i64)work.seq * p.live_table_pages,
                             span[2], span[3], work.first_candidate};
    float sums[COLUMNS] = {};
    add_keys<Page>(sums, p, work, history, query, weights);
    add_keys<Page>(sums, p, work, candidates, query, weights);
    const float factor = p.row_factors ? p.row_factors[work.row] : p.factor;
    ACT *out = p.out + (i64)work.row * p.out_stride + work.head * p.values.dim;
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        const i32 column = threadIdx.x + i * THREADS;
        if (column < p.values.dim) out[column] = round_to<ACT>(sums[i] * factor);
    }
}

/// Grid: tokens, heads.
KERNEL __launch_bounds__(THREADS) hstu_attention_plain(const __grid_constant__ HstuPlainParams p) {
    wait_for_inputs();
    let_next_start();
    const RowWork work(p);
    if (work.seq < 0) return;
    if (p.only_candidates && work.position < work.first_candidate) return;
    switch (p.page_kind) {
    case PAGE_F32: return attend_row<float>(p, work);
    case PAGE_F16: return attend_row<f16>(p, work);
    case PAGE_BF16: return attend_row<bf16>(p, work);
    case PAGE_E4M3: return attend_row<e4m3>(p, work);
    case PAGE_E5M2: return attend_row<e5m2>(p, work);
    case PAGE_INT8: return attend_row<int8>(p, work);
    }
}
