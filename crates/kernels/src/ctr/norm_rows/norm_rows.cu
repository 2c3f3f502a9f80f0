// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Rows less their mean, over their standard deviation, times a weight, with a bias; a warp has one.
// Bound by memory.

#include "ctr_numbers.cuh"

struct NormRowsParams {
    CtrRows x, out;
    const float *weight, *bias; // [dim]
    u32 rows, dim;
    float eps;
};

/// Grid: a warp for each row.
KERNEL __launch_bounds__(128) norm_rows(const __grid_constant__ NormRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = ctr_thread() / 32;
    const u32 lane = threadIdx.x % 32;
    if (row >= p.rows) return;
    float sum = 0.0f;
    for (u32 i = lane; i < p.dim; i += 32) sum += p.x.get(row, i);
    const float mean = warp_sum(sum) / (float)p.dim;
    float squares = 0.0f;
    for (u32 i = lane; i < p.dim; i += 32) {
        const float apart = p.x.get(row, i) - mean;
        squares = fmaf(apart, apart, squares);
    }
    const float factor = rsqrtf(warp_sum(squares) / (float)p.dim + p.eps);
    for (u32 i = lane; i < p.dim; i += 32)
        p.out.put(row, i, fmaf((p.x.get(row, i) - mean) * factor, p.weight[i], p.bias[i]));
}
