// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// sum += delta, row by row. Bound by memory.

#include "prelude.cuh"
#include "run_grid.cuh"

struct AddParams {
    void *sum;
    const float *delta;
    RunGrid grid;
    u32 dim, sum_stride, delta_stride;
};

template <typename T> DEVICE void add_run(const AddParams &p) {
    let_next_start();
    wait_for_inputs();
    u64 row;
    u32 run;
    if (!find_run(p.grid, row, run)) return;
    const u32 column = run * RUN, count = p.dim - column;
    T *to = (T *)p.sum + row * p.sum_stride + column;
    float sum[RUN], delta[RUN];
    load_run(sum, to, count);
    load_run(delta, p.delta + row * p.delta_stride + column, count);
#pragma unroll
    for (u32 i = 0; i < RUN; i++) sum[i] += delta[i];
    store_run(to, sum, count);
}

KERNEL __launch_bounds__(128) add(const __grid_constant__ AddParams p) {
    add_run<ACT>(p);
}

KERNEL __launch_bounds__(128) add_f32(const __grid_constant__ AddParams p) {
    add_run<float>(p);
}
