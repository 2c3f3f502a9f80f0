// ptx: f32
//
// d_table[id] += d_out for each token. Tokens with the same id add to one row, in any order.
//
// Roofline: 12 bytes a number; bound by memory, or by the sums into one row where a token is most
// of them.

#include "prelude.cuh"

struct EmbedGradientParams {
    const i32 *ids;     // `[tokens]`
    const float *d_out; // `[tokens, hidden]`
    float *d_table;     // `[vocab, hidden]`
    u32 vocab, hidden;
    u32 d_out_stride, table_stride;
};

/// Columns of a thread, `blockDim.x` apart, so that neighbours add to neighbours.
static const u32 COLUMNS = 4;

/// Grid: tokens, parts of a row. An id outside the table is passed over.
KERNEL __launch_bounds__(128) embed_gradient(const __grid_constant__ EmbedGradientParams p) {
    let_next_start();
    wait_for_inputs();
    // A negative id is larger than any.
    const u32 id = (u32)p.ids[blockIdx.x];
    if (id >= p.vocab) return;
    const float *d_out = p.d_out + (u64)blockIdx.x * p.d_out_stride;
    float *d_row = p.d_table + (u64)id * p.table_stride;
    const u32 start = blockIdx.y * COLUMNS * blockDim.x + threadIdx.x;
#pragma unroll
    for (u32 i = 0; i < COLUMNS; i++) {
        const u32 column = start + i * blockDim.x;
        if (column < p.hidden) atomicAdd(d_row + column, d_out[column]);
    }
}
