// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Each column times its own factor or plus its own number, and sums over the rows of each column.
// All are bound by memory.

#include "prelude.cuh"
#include "run_grid.cuh"

struct AddToColumnsParams {
    void *x;
    const float *added;
    RunGrid grid;
    u32 dim, x_stride;
};

struct ScaleColumnsParams {
    const float *x, *factors;
    void *out;
    RunGrid grid;
    u32 dim, x_stride, out_stride;
};

struct SumColumnsParams {
    /// Null where `d_out` is summed as it is.
    const float *x;
    const float *d_out;
    float *sums;
    u32 rows, dim;
    u32 x_stride, d_out_stride;
    /// Of a block.
    u32 part_rows;
};

template <typename T> DEVICE void add_to_run(const AddToColumnsParams &p) {
    let_next_start();
    wait_for_inputs();
    u64 row;
    u32 run;
    if (!find_run(p.grid, row, run)) return;
    const u32 column = run * RUN, count = p.dim - column;
    T *to = (T *)p.x + row * p.x_stride + column;
    float x[RUN], added[RUN];
    load_run(x, to, count);
    load_run(added, p.added + column, count);
#pragma unroll
    for (u32 i = 0; i < RUN; i++) x[i] += added[i];
    store_run(to, x, count);
}

template <typename T> DEVICE void scale_run(const ScaleColumnsParams &p) {
    let_next_start();
    wait_for_inputs();
    u64 row;
    u32 run;
    if (!find_run(p.grid, row, run)) return;
    const u32 column = run * RUN, count = p.dim - column;
    float x[RUN], factors[RUN];
    load_run(x, p.x + row * p.x_stride + column, count);
    load_run(factors, p.factors + column, count);
#pragma unroll
    for (u32 i = 0; i < RUN; i++) x[i] *= factors[i];
    store_run((T *)p.out + row * p.out_stride + column, x, count);
}

KERNEL __launch_bounds__(128) add_to_columns(const __grid_constant__ AddToColumnsParams p) {
    add_to_run<ACT>(p);
}
KERNEL __launch_bounds__(128) add_to_columns_f32(const __grid_constant__ AddToColumnsParams p) {
    add_to_run<float>(p);
}
KERNEL __launch_bounds__(128) scale_columns(const __grid_constant__ ScaleColumnsParams p) {
    scale_run<ACT>(p);
}
KERNEL __launch_bounds__(128) scale_columns_f32(const __grid_constant__ ScaleColumnsParams p) {
    scale_run<float>(p);
}

/// Columns of a block, one for each lane, and its warps, which take turns among its rows.
static const u32 COLUMNS = 32;
static const u32 WARPS = 8;

/// `sums += Σ_rows d_out`, or `Σ_rows d_out * x`. Grid: columns, rows.
KERNEL __launch_bounds__(256) sum_columns(const __grid_constant__ SumColumnsParams p) {
    __shared__ float parts[WARPS][COLUMNS];
    let_next_start();
    wait_for_inputs();
    const u32 lane = threadIdx.x % COLUMNS, warp = threadIdx.x / COLUMNS;
    const u32 column = blockIdx.x * COLUMNS + lane;
    const u32 first = blockIdx.y * p.part_rows;
    const u32 count = min(p.part_rows, p.rows - first);
    float sum = 0.0f;
    if (column < p.dim) {
        const float *d_out = p.d_out + (u64)first * p.d_out_stride + column;
        const float *x = p.x ? p.x + (u64)first * p.x_stride + column : nullptr;
#pragma unroll 4
        for (u32 row = warp; row < count; row += WARPS) {
            const float d = d_out[(u64)row * p.d_out_stride];
            sum += x ? d * x[(u64)row * p.x_stride] : d;
        }
    }
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= p.dim) return;
#pragma unroll
    for (u32 other = 1; other < WARPS; other++) sum += parts[other][lane];
    atomicAdd(p.sums + column, sum);
}
