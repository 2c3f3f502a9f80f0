// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Each number of a row several times, or each row several times. Bound by memory.

#include "ctr_numbers.cuh"

struct RepeatParams {
    CtrRows x, out;
    u32 out_rows, out_dim;
    u32 row_factor, number_factor; // one of them is 1
};

/// Grid: a thread for each number of `out`.
KERNEL __launch_bounds__(256) repeat(const __grid_constant__ RepeatParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = ctr_thread() / p.out_dim;
    const u32 column = (u32)(ctr_thread() % p.out_dim);
    if (row >= p.out_rows) return;
    p.out.put(row, column, p.x.get(row / p.row_factor, column / p.number_factor));
}
