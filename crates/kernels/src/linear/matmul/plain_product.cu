// ptx: f32
//
// Products in f32, as plainly as is bearable: what a check of a model's arithmetic runs with. No
// tensor cores, no TF32.
//
// A block makes 64 x 64 outputs from panels of 16 columns in shared memory, a thread 4 x 4 of
// them. Each output is one sum in the order of the columns.
//
// Roofline: bound by the f32 units for many tokens, far from memory's speed for few.

#include "prelude.cuh"

#include "product_out.cuh"

struct PlainParams {
    const float *x;      // [tokens, columns], rows of `x_stride`
    const float *weight; // [rows, columns]
    const float *bias;   // [rows], or null
    float *out;          // [tokens, rows], rows of `out_stride`
    i32 tokens, rows, columns, x_stride, out_stride;
    u32 out_kind; // of `ProductOut`
};

static const int TILE = 64;
static const int PANEL = 16;
static const int EACH = 4;
static const int THREADS = (TILE / EACH) * (TILE / EACH);

/// Brings a panel of 64 rows into shared memory, column by column; zeros outside the matrix.
DEVICE void load_panel(float to[PANEL][TILE + EACH], const float *from, i32 row, i32 rows,
                       i32 column, i32 columns, i64 stride) {
    for (int i = threadIdx.x; i < TILE * PANEL; i += THREADS) {
        const int r = i / PANEL, c = i % PANEL;
        const bool is_inside = row + r < rows && column + c < columns;
        to[c][r] = is_inside ? from[(row + r) * stride + column + c] : 0.0f;
    }
}

/// Grid: tiles of rows, tiles of tokens.
KERNEL __launch_bounds__(THREADS) plain_product(const __grid_constant__ PlainParams p) {
    __shared__ float x[PANEL][TILE + EACH], weight[PANEL][TILE + EACH];
    const i32 first_row = blockIdx.x * TILE, first_token = blockIdx.y * TILE;
    const int my_row = threadIdx.x % (TILE / EACH) * EACH;
    const int my_token = threadIdx.x / (TILE / EACH) * EACH;
    float sums[EACH][EACH] = {};
    let_next_start();
    wait_for_inputs();
    for (i32 column = 0; column < p.columns; column += PANEL) {
        load_panel(x, p.x, first_token, p.tokens, column, p.columns, p.x_stride);
        load_panel(weight, p.weight, first_row, p.rows, column, p.columns, p.columns);
        __syncthreads();
        // Each panel by itself first: fewer roundings add up.
        float part[EACH][EACH] = {};
#pragma unroll
        for (int i = 0; i < PANEL * EACH * EACH; i++) {
            const int c = i / (EACH * EACH), t = i / EACH % EACH, r = i % EACH;
            part[t][r] = fmaf(x[c][my_token + t], weight[c][my_row + r], part[t][r]);
        }
#pragma unroll
        for (int i = 0; i < EACH * EACH; i++) sums[i / EACH][i % EACH] += part[i / EACH][i % EACH];
        __syncthreads();
    }
    for (int t = 0; t < EACH; t++)
        for (int r = 0; r < EACH; r++) {
            const i32 token = first_token + my_token + t, row = first_row + my_row + r;
            if (token < p.tokens && row < p.rows)
                p.out[(i64)token * p.out_stride + row] =
                    finished(p.out_kind, sums[t][r] + (p.bias ? p.bias[row] : 0.0f));
        }
}
