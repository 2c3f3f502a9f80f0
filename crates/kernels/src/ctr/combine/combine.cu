// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Several tensors of one shape, added, subtracted or multiplied number by number. Bound by memory.

#include "ctr_numbers.cuh"

enum Combination { COMBINE_ADD, COMBINE_SUBTRACT, COMBINE_MULTIPLY };
enum { COMBINED_MOST = 8 };

struct CombineParams {
    CtrRows inputs[COMBINED_MOST];
    CtrRows out;
    u32 rows, dim;
    u32 count, kind;
    CtrActivation activation;
};

/// Grid: a thread for each number.
KERNEL __launch_bounds__(256) combine(const __grid_constant__ CombineParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = ctr_thread() / p.dim;
    const u32 column = (u32)(ctr_thread() % p.dim);
    if (row >= p.rows) return;
    float y = p.inputs[0].get(row, column);
#pragma unroll
    for (u32 i = 1; i < COMBINED_MOST; i++) {
        if (i >= p.count) break;
        const float x = p.inputs[i].get(row, column);
        if (p.kind == COMBINE_ADD) y += x;
        else if (p.kind == COMBINE_SUBTRACT) y -= x;
        else y *= x;
    }
    p.out.put(row, column, p.activation.of(y));
}
