// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Rows of an embedding table, summed or averaged by feature slot. Bound by memory.

#include "ctr_numbers.cuh"

struct PoolRowsParams {
    CtrRows rows, out;
    const i32 *index;   // [keys]
    const i32 *offsets; // [segments + 1]
    u32 segments, slots, dim;
    u32 means; // whether sums are divided
};

/// Grid: a thread for each number of `out`.
KERNEL __launch_bounds__(256) pool_rows(const __grid_constant__ PoolRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 segment = ctr_thread() / p.dim;
    const u32 column = (u32)(ctr_thread() % p.dim);
    if (segment >= p.segments) return;
    const i32 begin = p.offsets[segment], end = p.offsets[segment + 1];
    float sum = 0.0f;
    for (i32 at = begin; at < end; at++) sum += p.rows.get(p.index[at], column);
    if (p.means && end - begin > 1) sum *= 1.0f / (float)(end - begin);
    p.out.put(segment / p.slots, (u32)(segment % p.slots) * p.dim + column, sum);
}
