// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// A function of each number. Bound by memory.

#include "ctr_numbers.cuh"

struct ActivateRowsParams {
    CtrRows x, out;
    u32 rows, dim;
    CtrActivation activation;
};

/// Grid: a thread for each number.
KERNEL __launch_bounds__(256) activate_rows(const __grid_constant__ ActivateRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = ctr_thread() / p.dim;
    const u32 column = (u32)(ctr_thread() % p.dim);
    if (row >= p.rows) return;
    p.out.put(row, column, p.activation.of(p.x.get(row, column)));
}
