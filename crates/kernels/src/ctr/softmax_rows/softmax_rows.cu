// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// The softmax of each row; a warp has one. Bound by memory.

#include "ctr_numbers.cuh"

struct SoftmaxRowsParams {
    CtrRows x, out;
    u32 rows, dim;
};

/// Grid: a warp for each row.
KERNEL __launch_bounds__(128) softmax_rows(const __grid_constant__ SoftmaxRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = ctr_thread() / 32;
    const u32 lane = threadIdx.x % 32;
    if (row >= p.rows) return;
    float largest = __uint_as_float(0xff800000u);
    for (u32 i = lane; i < p.dim; i += 32) largest = fmaxf(largest, p.x.get(row, i));
    largest = warp_max(largest);
    float sum = 0.0f;
    for (u32 i = lane; i < p.dim; i += 32) sum += expf(p.x.get(row, i) - largest);
    const float factor = 1.0f / warp_sum(sum);
    for (u32 i = lane; i < p.dim; i += 32)
        p.out.put(row, i, expf(p.x.get(row, i) - largest) * factor);
}
