// ptx[90a]: bf16
//
// Adds the sums that the splits of hstu_attention_hopper.cu left, in their order, and rounds:
//
//     out[row] = factor * (partials[0, row] + partials[1, row] + ...)
//
// Bound by the reading of `partials`.

#include "prelude.cuh"

struct HstuAddSplitsParams {
    const float *partials; // [splits, tokens, columns]
    bf16 *out;             // [tokens, columns], `out_stride` from one row to the next
    const i32 *tiles;      // [tiles, 8], as of hstu_attention_hopper.cu
    const float *row_factors;
    i32 tokens, columns, splits;
    float factor;
    i32 out_stride;
};

static const int THREADS = 256;

/// Grid: (tiles, some), best with 4 numbers for each thread of the second: columns / 8.
KERNEL __launch_bounds__(THREADS) hstu_add_splits(const __grid_constant__ HstuAddSplitsParams p) {
    wait_for_inputs();
    let_next_start();
    const i32 *tile = p.tiles + 8 * blockIdx.x;
    const i32 first = tile[1], rows = tile[2], fours = p.columns / 4;
    const i64 split_stride = (i64)p.tokens * p.columns;
    for (i32 i = blockIdx.y * THREADS + threadIdx.x; i < rows * fours; i += gridDim.y * THREADS) {
        const i64 token = first + i / fours, column = i % fours * 4;
        const i64 at = token * p.columns + column;
        float sum[4] = {};
#pragma unroll 4
        for (i32 split = 0; split < p.splits; split++) {
            const Vec16 x = load_once(p.partials + split * split_stride + at);
#pragma unroll
            for (int j = 0; j < 4; j++) sum[j] += __uint_as_float(x.word[j]);
        }
        const float factor = p.row_factors ? p.row_factors[token] : p.factor;
        uint2 y = {pack<bf16>(sum[0] * factor, sum[1] * factor),
                   pack<bf16>(sum[2] * factor, sum[3] * factor)};
        *(uint2 *)(p.out + token * p.out_stride + column) = y;
    }
}
