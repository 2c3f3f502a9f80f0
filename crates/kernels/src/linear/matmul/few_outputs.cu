// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Products of any number of tokens with a matrix of up to four rows, as the last layer of a
// network has:
//
//     out[token, row] = epilogue(sum of x[token, column] * weight[row, column] + bias[row])
//
// A warp has a token, or several one after the other. Bound by memory: `x` is read once, weights
// stay in the first-level cache. A block's results are written together, for `out` may be host
// memory, which single numbers reach slowly. The order of a sum depends on the number of columns
// alone.
#include "prelude.cuh"

#include "product_out.cuh"

struct FewOutputsParams {
    const ACT *x;       // rows of `x_stride` numbers
    const ACT *weights; // `[rows, columns]`
    const float *bias;  // `[rows]`, or null
    u8 *out;            // rows of `out_stride` numbers
    u32 tokens, rows, columns; // columns and `x_stride` are multiples of 8
    u32 x_stride, out_stride;
    u32 out_kind; // of `ProductOut`
    u32 warp_tokens; // of a warp, at most `MOST_WARP_TOKENS`
    u32 unused;
};

enum { MOST_ROWS = 4, WARPS = 4, MOST_WARP_TOKENS = 8 };

/// The sums of a token, in all lanes.
DEVICE void dot_products(const FewOutputsParams &p, u32 token, u32 lane, float (&sums)[MOST_ROWS]) {
    const ACT *x = p.x + (u64)token * p.x_stride;
    for (u32 column = lane * 8; column < p.columns; column += 32 * 8) {
        float numbers[8], weights[8];
        load8(numbers, x + column);
#pragma unroll
        for (u32 row = 0; row < MOST_ROWS; row++) {
            if (row >= p.rows) break;
            load8(weights, p.weights + (u64)row * p.columns + column);
#pragma unroll
            for (u32 i = 0; i < 8; i++) sums[row] = fmaf(numbers[i], weights[i], sums[row]);
        }
    }
#pragma unroll
    for (u32 row = 0; row < MOST_ROWS; row++)
        if (row < p.rows) sums[row] = warp_sum(sums[row]) + (p.bias ? p.bias[row] : 0.0f);
}

/// Grid: `WARPS * warp_tokens` tokens a block.
KERNEL __launch_bounds__(128) few_outputs(const __grid_constant__ FewOutputsParams p) {
    __shared__ float results[WARPS * MOST_WARP_TOKENS][MOST_ROWS];
    let_next_start();
    wait_for_inputs();
    const u32 lane = threadIdx.x % 32, block_tokens = WARPS * p.warp_tokens;
    const u32 first = blockIdx.x * block_tokens;
    for (u32 i = threadIdx.x / 32; i < block_tokens && first + i < p.tokens; i += WARPS) {
        float sums[MOST_ROWS] = {};
        dot_products(p, first + i, lane, sums);
#pragma unroll
        for (u32 row = 0; row < MOST_ROWS; row++)
            if (lane == row) results[i][row] = sums[row];
    }
    __syncthreads();
    const u32 token = threadIdx.x / p.rows, row = threadIdx.x % p.rows;
    if (token >= block_tokens || first + token >= p.tokens) return;
    const float value = finished(p.out_kind, results[token][row]);
    const u64 at = (u64)(first + token) * p.out_stride + row;
    if (p.out_kind & OUT_IS_F32)
        ((float *)p.out)[at] = value;
    else
        ((ACT *)p.out)[at] = round_to<ACT>(value);
}
