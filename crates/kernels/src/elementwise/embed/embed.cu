// ptx: f32 -DTABLE=Dense<float>
// ptx: bf16 -DTABLE=Dense<bf16>
// ptx: f16 -DTABLE=Dense<f16>
// ptx: s4 -DTABLE=Packed<S4Block>
// ptx: q4 -DTABLE=Packed<Q4Block>
// ptx: q6 -DTABLE=Packed<Q6Block>
// ptx: q8 -DTABLE=Packed<Q8Block>
//
// Rows of a table, picked by token id, as f32. A thread brings eight columns of one token.
//
// A negative id stands for a token that was sampled on this device and never left it: -1 - id is
// its place in `sampled`. An id that no row has gives zeros.
#include "prelude.cuh"
#include "packed.cuh"

struct EmbedParams {
    const i32 *ids;     // `[tokens]`
    const i32 *sampled; // `[sampled_count]`
    const u8 *table;    // `[rows, hidden]`
    float *out;         // `[tokens, hidden]`, rows of `out_stride` numbers
    i32 sampled_count;
    u32 rows, hidden, out_stride;
};

template <typename T> struct Dense {
    static DEVICE void eight(const EmbedParams &p, u32 row, u32 column, float x[8]) {
        const T *from = (const T *)p.table + (u64)row * p.hidden + column;
        if (fits_16((u64)p.table | (u64)p.hidden * sizeof(T))) {
            load8(x, from);
        } else {
#pragma unroll
            for (u32 i = 0; i < 8; i++) x[i] = column + i < p.hidden ? widen(from[i]) : 0.0f;
        }
    }
};

template <typename Format> struct Packed {
    static DEVICE void eight(const EmbedParams &p, u32 row, u32 column, float x[8]) {
        u64 block = (u64)(row / PANEL_ROWS) * (p.hidden / BLOCK_COLUMNS) + column / BLOCK_COLUMNS;
        Format::eight(p.table + block * Format::BYTES, row % PANEL_ROWS, column % BLOCK_COLUMNS, x);
    }
};

DEVICE i32 row_of(const EmbedParams &p, u32 token) {
    i32 id = p.ids[token];
    if (id >= 0) return id;
    i32 place = -1 - id;
    return place < p.sampled_count ? p.sampled[place] : -1;
}

KERNEL __launch_bounds__(128) embed(const __grid_constant__ EmbedParams p) {
    let_next_start();
    wait_for_inputs();
    u32 column = (blockIdx.y * blockDim.x + threadIdx.x) * 8;
    if (column >= p.hidden) return;
    // A negative row is larger than any.
    u32 row = row_of(p, blockIdx.x);
    float x[8] = {};
    if (row < p.rows) TABLE::eight(p, row, column, x);
    float *to = p.out + (u64)blockIdx.x * p.out_stride + column;
    if (column + 8 <= p.hidden && fits_16((u64)p.out | (u64)p.out_stride * sizeof(float))) {
        store8(to, x);
    } else {
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            if (column + i < p.hidden) to[i] = x[i];
    }
}
