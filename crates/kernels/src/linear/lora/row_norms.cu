// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// The norm of each row of weight + scale * b * a, which DoRA divides by.
//
// A block has eight rows and reads a once for all of them; a thread has two columns at a time,
// whose sums over the rank stay in registers, and the rows' numbers of b come from shared memory.
//
// Roofline: 2 rank flops a number of the weight, by plain arithmetic, and a once from the
// second-level cache for every eight rows.

#include "prelude.cuh"

struct RowNormsParams {
    const ACT *weight; // `[rows, columns]`
    const float *a;    // `[rank, columns]`
    const float *b;    // `[rows, rank]`
    float *norms;      // `[rows]`
    u32 rows, columns, rank;
    u32 weight_stride, a_stride, b_stride;
    float scale;
};

static const u32 ROWS = 8;
static const u32 COLUMNS = 2;
static const u32 WARPS = 8;

/// A column's numbers in all rows of the block.
struct Column {
    float row[ROWS];
};

/// The block's rows of b as `[rank][ROWS]`, zeros for rows that are not there.
DEVICE void bring_b(const RowNormsParams &p, u32 first, Column *b) {
    for (u32 i = threadIdx.x; i < p.rank * ROWS; i += blockDim.x) {
        const u32 row = i / p.rank, k = i - row * p.rank;
        const bool is_there = first + row < p.rows;
        b[k].row[row] = is_there ? p.b[(u64)(first + row) * p.b_stride + k] : 0.0f;
    }
}

/// Adds the squares of the numbers in columns `start` and `blockDim.x` behind it.
DEVICE void add_squares(const RowNormsParams &p, u32 first, u32 start, const Column *b,
                        Column &squares) {
    Column sums[COLUMNS] = {};
    // Past the end the last column is read, and not counted.
    u32 columns[COLUMNS];
#pragma unroll
    for (u32 i = 0; i < COLUMNS; i++) columns[i] = min(start + i * blockDim.x, p.columns - 1);
#pragma unroll 2
    for (u32 k = 0; k < p.rank; k++) {
        const Column of_rows = b[k];
        const float *a = p.a + (u64)k * p.a_stride;
#pragma unroll
        for (u32 i = 0; i < COLUMNS; i++) {
            const float number = a[columns[i]];
#pragma unroll
            for (u32 row = 0; row < ROWS; row++) sums[i].row[row] += number * of_rows.row[row];
        }
    }
#pragma unroll
    for (u32 i = 0; i < COLUMNS; i++) {
        if (start + i * blockDim.x >= p.columns) continue;
#pragma unroll
        for (u32 row = 0; row < ROWS; row++) {
            if (first + row >= p.rows) continue;
            const ACT *weight = p.weight + (u64)(first + row) * p.weight_stride;
            const float number = widen(weight[columns[i]]) + p.scale * sums[i].row[row];
            squares.row[row] += number * number;
        }
    }
}

/// Grid: rows, in eights. Shared memory: a `Column` for each of the rank.
KERNEL __launch_bounds__(WARPS * 32) row_norms(const __grid_constant__ RowNormsParams p) {
    extern __shared__ Vec16 shared[];
    __shared__ float parts[WARPS][ROWS];
    let_next_start();
    wait_for_inputs();
    const u32 first = blockIdx.x * ROWS;
    Column *b = (Column *)shared;
    bring_b(p, first, b);
    __syncthreads();
    Column squares = {};
    for (u32 start = threadIdx.x; start < p.columns; start += COLUMNS * blockDim.x)
        add_squares(p, first, start, b, squares);
#pragma unroll
    for (u32 row = 0; row < ROWS; row++) {
        const float sum = warp_sum(squares.row[row]);
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][row] = sum;
    }
    __syncthreads();
    const u32 row = threadIdx.x;
    if (row >= ROWS || first + row >= p.rows) return;
    float sum = 0.0f;
#pragma unroll
    for (u32 warp = 0; warp < WARPS; warp++) sum += parts[warp][row];
    p.norms[first + row] = sqrtf(sum);
}
