// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// The same numbers in the same order, in rows of another length or type; rows of zeros. Bound by
// memory.

#include "ctr_numbers.cuh"

struct ArrangeParams {
    CtrRows x, out;
    u32 x_width, out_width;
    u32 out_rows;
};

/// Grid: a thread for each number of `out`.
KERNEL __launch_bounds__(256) arrange(const __grid_constant__ ArrangeParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 at = ctr_thread(), row = at / p.out_width;
    if (row >= p.out_rows) return;
    p.out.put(row, (u32)(at % p.out_width), p.x.get(at / p.x_width, (u32)(at % p.x_width)));
}

/// Grid: a thread for each number of `out`; `x` is not looked at.
KERNEL __launch_bounds__(256) clear_rows(const __grid_constant__ ArrangeParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 at = ctr_thread(), row = at / p.out_width;
    if (row < p.out_rows) p.out.put(row, (u32)(at % p.out_width), 0.0f);
}
