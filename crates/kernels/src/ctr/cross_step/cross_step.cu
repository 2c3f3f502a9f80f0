// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// What ends a layer of a cross network whose weights are matrices. Bound by memory.

#include "ctr_numbers.cuh"

struct CrossStepParams {
    CtrRows first, product, x, out;
    u32 rows, dim;
};

/// Grid: a thread for each number.
KERNEL __launch_bounds__(256) cross_step(const __grid_constant__ CrossStepParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = ctr_thread() / p.dim;
    const u32 column = (u32)(ctr_thread() % p.dim);
    if (row >= p.rows) return;
    const float product = p.product.get(row, column), x = p.x.get(row, column);
    p.out.put(row, column, fmaf(p.first.get(row, column), product, x));
}
