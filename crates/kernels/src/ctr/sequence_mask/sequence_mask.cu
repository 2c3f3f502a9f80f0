// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Which pairs of positions of two sequences both exist. Bound by memory.

#include "ctr_numbers.cuh"

struct SequenceMaskParams {
    CtrRows from, to, out;
    u32 samples, width, columns;
};

/// Grid: a thread for each number of `out`.
KERNEL __launch_bounds__(256) sequence_mask(const __grid_constant__ SequenceMaskParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 sample = ctr_thread() / p.width;
    const u32 at = (u32)(ctr_thread() % p.width);
    if (sample >= p.samples) return;
    const float row = (float)(at / p.columns), column = (float)(at % p.columns);
    const bool is_there =
        row < truncf(p.from.get(sample, 0)) && column < truncf(p.to.get(sample, 0));
    p.out.put(sample, at, is_there ? 1.0f : 0.0f);
}
