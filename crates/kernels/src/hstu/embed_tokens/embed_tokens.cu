// ptx: f32 -DROW=float
// ptx: bf16 -DROW=bf16
//
// Embedding rows, scaled, with rows of up to two other tables added; eight columns a thread. Bound
// by memory.

#include "prelude.cuh"

/// Rows of a table that are added, or null.
struct AddedRows {
    const float *table; // [rows, dim]
    const i32 *ids;     // [tokens]; -1 adds nothing
    u64 rows;
};

struct EmbedTokensParams {
    const ROW *rows;
    const i32 *ids;
    void *out;
    AddedRows added[2];
    u32 row_count;
    u32 dim;
    u32 row_stride;
    u32 out_stride;
    float scale;
    u32 out_type; // an ActType
};

DEVICE void add_row(float y[8], const AddedRows &added, u32 dim, u32 column, u32 count,
                    bool by_eight) {
    if (!added.table) return;
    const u32 id = added.ids[blockIdx.x];
    if (id >= added.rows) return;
    const float *row = added.table + (u64)id * dim + column;
    if (by_eight && fits_16((u64)row)) {
        float x[8];
        load8(x, row);
#pragma unroll
        for (int i = 0; i < 8; i++) y[i] += x[i];
    } else {
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            if (i < count) y[i] += row[i];
    }
}

template <typename Out> DEVICE void store_run(Out *out, const float y[8], u32 count) {
    if (count == 8 && fits_16((u64)out)) return store8(out, y);
#pragma unroll
    for (u32 i = 0; i < 8; i++)
        if (i < count) out[i] = round_to<Out>(y[i]);
}

/// Grid: tokens, runs of eight columns. An id that no row has gives zeros.
KERNEL __launch_bounds__(128) embed_tokens(const __grid_constant__ EmbedTokensParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 column = 8 * (blockIdx.y * blockDim.x + threadIdx.x);
    if (column >= p.dim) return;
    const u32 id = p.ids[blockIdx.x], count = min(p.dim - column, 8u);
    const ROW *row = p.rows + (u64)id * p.row_stride + column;
    const bool by_eight = count == 8;
    float y[8] = {};
    if (id < p.row_count) {
        if (by_eight && fits_16((u64)row)) {
            load8(y, row);
        } else {
#pragma unroll
            for (u32 i = 0; i < 8; i++)
                if (i < count) y[i] = widen(row[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++) y[i] *= p.scale;
    add_row(y, p.added[0], p.dim, column, count, by_eight);
    add_row(y, p.added[1], p.dim, column, count, by_eight);
    const u64 to = (u64)blockIdx.x * p.out_stride + column;
    switch (p.out_type) {
    case ACT_F32: return store_run((float *)p.out + to, y, count);
    case ACT_F16: return store_run((f16 *)p.out + to, y, count);
    case ACT_BF16: return store_run((bf16 *)p.out + to, y, count);
    }
}
