// ptx: f32 -DFACTOR=float
// ptx: bf16 -DFACTOR=bf16
// ptx: f16 -DFACTOR=f16
//
// scale * left * right^T, or added to what is there, for matrices of any extent that lie either
// way. No tensor cores: this is what products of gradients are in f32, and where the library that
// has the tensor cores' is missing or refuses.
//
// A block makes 64 x 64 outputs from panels of 16 summed numbers in shared memory, a thread 4 x 4
// of them. Each output is one sum in the order of what is summed.

#include "prelude.cuh"

struct MatrixProductParams {
    const FACTOR *left;  // [rows, summed], or transposed
    const FACTOR *right; // [columns, summed], or transposed
    void *out;           // [rows, columns]
    u32 rows, columns, summed;
    u32 left_stride, right_stride, out_stride;
    float scale;
    u32 form; // of `ProductForm`
};

enum ProductForm { OUT_IS_F32 = 1, ADDS = 2, LEFT_IS_TRANSPOSED = 4, RIGHT_IS_TRANSPOSED = 8 };

static const int TILE = 64;
static const int PANEL = 16;
static const int EACH = 4;
static const int THREADS = (TILE / EACH) * (TILE / EACH);

/// Brings 64 rows (columns, of one that is transposed) of a panel into shared memory; zeros outside
/// the matrix. Threads that follow one another read numbers that do.
DEVICE void load_panel(float to[PANEL][TILE + EACH], const FACTOR *from, u32 first, u32 count,
                       u32 summed, u32 end, u32 stride, bool is_transposed) {
    for (int i = threadIdx.x; i < TILE * PANEL; i += THREADS) {
        const u32 row = is_transposed ? i % TILE : i / PANEL;
        const u32 step = is_transposed ? i / TILE : i % PANEL;
        const u32 outer = is_transposed ? summed + step : first + row;
        const u32 inner = is_transposed ? first + row : summed + step;
        const bool is_inside = first + row < count && summed + step < end;
        to[step][row] = is_inside ? widen(from[(u64)outer * stride + inner]) : 0.0f;
    }
}

template <typename Out> DEVICE void put(void *out, u64 at, float x, bool adds) {
    Out *to = (Out *)out + at;
    *to = round_to<Out>(adds ? widen(*to) + x : x);
}

/// Grid: tiles of columns, tiles of rows.
KERNEL __launch_bounds__(THREADS) matrix_product(const __grid_constant__ MatrixProductParams p) {
    __shared__ float left[PANEL][TILE + EACH], right[PANEL][TILE + EACH];
    const u32 first_column = blockIdx.x * TILE, first_row = blockIdx.y * TILE;
    const u32 my_column = threadIdx.x % (TILE / EACH) * EACH;
    const u32 my_row = threadIdx.x / (TILE / EACH) * EACH;
    float sums[EACH][EACH] = {};
    let_next_start();
    wait_for_inputs();
    for (u32 summed = 0; summed < p.summed; summed += PANEL) {
        load_panel(left, p.left, first_row, p.rows, summed, p.summed, p.left_stride,
                   p.form & LEFT_IS_TRANSPOSED);
        load_panel(right, p.right, first_column, p.columns, summed, p.summed, p.right_stride,
                   p.form & RIGHT_IS_TRANSPOSED);
        __syncthreads();
        // Each panel by itself first: fewer roundings add up.
        float part[EACH][EACH] = {};
#pragma unroll
        for (int i = 0; i < PANEL * EACH * EACH; i++) {
            const int step = i / (EACH * EACH), r = i / EACH % EACH, c = i % EACH;
            part[r][c] = fmaf(left[step][my_row + r], right[step][my_column + c], part[r][c]);
        }
#pragma unroll
        for (int i = 0; i < EACH * EACH; i++) sums[i / EACH][i % EACH] += part[i / EACH][i % EACH];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH * EACH; i++) {
        const u32 row = first_row + my_row + i / EACH, column = first_column + my_column + i % EACH;
        if (row >= p.rows || column >= p.columns) continue;
        const u64 at = (u64)row * p.out_stride + column;
        const float x = p.scale * sums[i / EACH][i % EACH];
        if (p.form & OUT_IS_F32) {
            put<float>(p.out, at, x, p.form & ADDS);
        } else {
            put<FACTOR>(p.out, at, x, p.form & ADDS);
        }
    }
}
