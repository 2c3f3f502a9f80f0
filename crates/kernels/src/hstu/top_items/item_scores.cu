// ptx: f32
//
// Scores of all items with up to eight queries:
//
//     out[query, item] = item_scale[item] * (queries[query] . items[item])
//
// A warp has four items at a time and reads each of their numbers once; queries are in shared
// memory, 1024 columns at a time. Bound by the reading of `items`.

#include "prelude.cuh"

struct ItemScoresParams {
    const float *queries; // [query_count, dim]
    const float *items;   // [item_count, dim]
    const float *item_scale; // [item_count], or null
    float *out;           // [query_count, out_stride]
    u32 query_count, item_count, dim;
    u32 query_stride, item_stride, out_stride;
};

static const int QUERIES = 8, ITEMS = 4, THREADS = 256, COLUMNS = 1024;

DEVICE void load_queries(float (*shared)[COLUMNS], const ItemScoresParams &p, u32 first) {
    __syncthreads();
    for (u32 i = threadIdx.x; i < QUERIES * COLUMNS; i += THREADS) {
        const u32 query = i / COLUMNS, column = first + i % COLUMNS;
        const bool is_there = query < p.query_count && column < p.dim;
        shared[query][i % COLUMNS] = is_there ? p.queries[(u64)query * p.query_stride + column] : 0;
    }
    __syncthreads();
}

/// Products of some columns of four items with all queries.
template <int WIDTH>
DEVICE void add_products(float (&sums)[ITEMS][QUERIES], const float *const (&rows)[ITEMS],
                         const float (*queries)[COLUMNS], u32 first, u32 columns) {
    for (u32 at = threadIdx.x % 32 * WIDTH; at < columns; at += 32 * WIDTH) {
        float x[ITEMS][WIDTH];
#pragma unroll
        for (int item = 0; item < ITEMS; item++) {
            if constexpr (WIDTH == 4) {
                const Vec16 four = load_once(rows[item] + first + at);
#pragma unroll
                for (int i = 0; i < 4; i++) x[item][i] = __uint_as_float(four.word[i]);
            } else {
                x[item][0] = rows[item][first + at];
            }
        }
#pragma unroll
        for (int query = 0; query < QUERIES; query++) {
            float q[WIDTH];
            if constexpr (WIDTH == 4) {
                const float4 four = *(const float4 *)&queries[query][at];
                q[0] = four.x, q[1] = four.y, q[2] = four.z, q[3] = four.w;
            } else {
                q[0] = queries[query][at];
            }
#pragma unroll
            for (int item = 0; item < ITEMS; item++)
#pragma unroll
                for (int i = 0; i < WIDTH; i++)
                    sums[item][query] = fmaf(x[item][i], q[i], sums[item][query]);
        }
    }
}

/// Grid: any; blocks share the groups of items.
KERNEL __launch_bounds__(THREADS) item_scores(const __grid_constant__ ItemScoresParams p) {
    __shared__ __align__(16) float queries[QUERIES][COLUMNS];
    wait_for_inputs();
    let_next_start();
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 group_items = THREADS / 32 * ITEMS;
    const bool by_four = p.dim % 4 == 0 && p.item_stride % 4 == 0 && fits_16((u64)p.items);
    if (p.dim <= COLUMNS) load_queries(queries, p, 0);
    for (u64 group = (u64)blockIdx.x * group_items; group < p.item_count;
         group += (u64)gridDim.x * group_items) {
        const u64 first_item = group + warp * ITEMS;
        const float *rows[ITEMS];
#pragma unroll
        for (int item = 0; item < ITEMS; item++) {
            const u64 row = min(first_item + item, (u64)p.item_count - 1);
            rows[item] = p.items + row * p.item_stride;
        }
        float sums[ITEMS][QUERIES] = {};
        for (u32 first = 0; first < p.dim; first += COLUMNS) {
            if (p.dim > COLUMNS) load_queries(queries, p, first);
            const u32 columns = min(p.dim - first, (u32)COLUMNS);
            if (by_four) add_products<4>(sums, rows, queries, first, columns);
            else add_products<1>(sums, rows, queries, first, columns);
        }
#pragma unroll
        for (int item = 0; item < ITEMS; item++) {
            const u64 row = first_item + item;
#pragma unroll
            for (int query = 0; query < QUERIES; query++) {
                const float sum = warp_sum(sums[item][query]);
                if (lane == 0 && row < p.item_count && query < p.query_count) {
                    const float scale = p.item_scale ? p.item_scale[row] : 1.0f;
                    p.out[query * (u64)p.out_stride + row] = sum * scale;
                }
            }
        }
    }
}
