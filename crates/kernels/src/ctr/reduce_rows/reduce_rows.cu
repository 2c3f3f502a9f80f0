// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// The sum or the mean of the vectors that a row is made of. Bound by memory.

#include "ctr_numbers.cuh"

struct ReduceRowsParams {
    CtrRows x, out;
    u32 rows, dim, count;
    float factor;
};

/// Grid: a warp for each row of single numbers.
KERNEL __launch_bounds__(128) reduce_numbers(const __grid_constant__ ReduceRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = ctr_thread() / 32;
    if (row >= p.rows) return;
    float sum = 0.0f;
    for (u32 i = threadIdx.x % 32; i < p.count; i += 32) sum += p.x.get(row, i);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) p.out.put(row, 0, sum * p.factor);
}

/// Grid: a thread for each number of `out`.
KERNEL __launch_bounds__(128) reduce_rows(const __grid_constant__ ReduceRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = ctr_thread() / p.dim;
    const u32 column = (u32)(ctr_thread() % p.dim);
    if (row >= p.rows) return;
    float sum = 0.0f;
    for (u32 i = 0; i < p.count; i++) sum += p.x.get(row, i * p.dim + column);
    p.out.put(row, column, sum * p.factor);
}
