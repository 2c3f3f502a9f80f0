// ptx[90a]: bf16
//
// Adds the sums that parts of hstu_attention_hopper.cu left, in their order, and rounds:
//
//     out[row] = factor * (partials[first, row] + partials[first + 1, row] + ...)
//
// Bound by the reading of `partials`.

#include "prelude.cuh"

struct HstuAddPartsParams {
    const float *partials; // [parts, heads, 128, head_dim]
    bf16 *out;             // [tokens, heads * head_dim], `out_stride` from one row to the next
    const i32 *tiles;      // [tiles, 4]: first row, rows, first part, parts
    const float *row_factors;
    i32 heads, head_dim;
    float factor;
    i32 out_stride;
};

static const int THREADS = 256;
static const int ROWS = 128;

/// Grid: (tiles, heads, some), best with 4 numbers for each thread of the last: head_dim / 8.
KERNEL __launch_bounds__(THREADS) hstu_add_parts(const __grid_constant__ HstuAddPartsParams p) {
    wait_for_inputs();
    let_next_start();
    const i32 *tile = p.tiles + 4 * blockIdx.x;
    const i32 first = tile[0], rows = tile[1], part = tile[2], parts = tile[3];
    const i32 head = blockIdx.y, fours = p.head_dim / 4;
    const i64 numbers = (i64)ROWS * p.head_dim, stride = p.heads * numbers;
    const float *sums = p.partials + ((i64)part * p.heads + head) * numbers;
    for (i32 i = blockIdx.z * THREADS + threadIdx.x; i < rows * fours; i += gridDim.z * THREADS) {
        const i64 row = i / fours, column = i % fours * 4, token = first + row;
        float sum[4] = {};
#pragma unroll 4
        for (i32 other = 0; other < parts; other++) {
            const Vec16 x = load_once(sums + other * stride + row * p.head_dim + column);
#pragma unroll
            for (int j = 0; j < 4; j++) sum[j] += __uint_as_float(x.word[j]);
        }
        const float factor = p.row_factors ? p.row_factors[token] : p.factor;
        uint2 y = {pack<bf16>(sum[0] * factor, sum[1] * factor),
                   pack<bf16>(sum[2] * factor, sum[3] * factor)};
        *(uint2 *)(p.out + token * p.out_stride + head * p.head_dim + column) = y;
    }
}
