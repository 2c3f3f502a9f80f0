// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Each number of a row times a vector of its own. Bound by memory.

#include "ctr_numbers.cuh"

struct WeightMultiplyParams {
    CtrRows x, out;
    const float *weights; // [count * dim]
    u32 rows, width, dim;
};

/// Grid: a thread for each number of `out`.
KERNEL __launch_bounds__(256) weight_multiply(const __grid_constant__ WeightMultiplyParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = ctr_thread() / p.width;
    const u32 column = (u32)(ctr_thread() % p.width);
    if (row >= p.rows) return;
    p.out.put(row, column, p.x.get(row, column / p.dim) * p.weights[column]);
}
