// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// The products of all pairs of a row's vectors, summed. Bound by memory.

#include "ctr_numbers.cuh"

struct FmOrder2Params {
    CtrRows x, out;
    u32 rows, dim, count;
};

/// Grid: a thread for each number of `out`.
KERNEL __launch_bounds__(128) fm_order2(const __grid_constant__ FmOrder2Params p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = ctr_thread() / p.dim;
    const u32 column = (u32)(ctr_thread() % p.dim);
    if (row >= p.rows) return;
    float sum = 0.0f, squares = 0.0f;
    for (u32 i = 0; i < p.count; i++) {
        const float x = p.x.get(row, i * p.dim + column);
        sum += x;
        squares = fmaf(x, x, squares);
    }
    // Both are rounded, so that one vector alone has no pairs: its difference is 0.
    p.out.put(row, column, 0.5f * (__fmul_rn(sum, sum) - squares));
}
