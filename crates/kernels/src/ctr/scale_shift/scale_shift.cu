// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Each column times a number of its own, and another added. Bound by memory.

#include "ctr_numbers.cuh"

struct ScaleShiftParams {
    CtrRows x, out;
    const float *scale, *shift; // [dim]
    u32 rows, dim;
};

/// Grid: a thread for each number.
KERNEL __launch_bounds__(256) scale_shift(const __grid_constant__ ScaleShiftParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = ctr_thread() / p.dim;
    const u32 column = (u32)(ctr_thread() % p.dim);
    if (row >= p.rows) return;
    p.out.put(row, column, fmaf(p.x.get(row, column), p.scale[column], p.shift[column]));
}
