// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Rows in another type, or copied in the same; what is too large for it becomes infinite, as
// activations do. Bound by memory.

#include "prelude.cuh"
#include "run_grid.cuh"

struct CastParams {
    const void *x;
    void *out;
    RunGrid grid;
    u32 dim, x_stride, out_stride;
};

template <typename From, typename To> DEVICE void cast_run(const CastParams &p) {
    let_next_start();
    wait_for_inputs();
    u64 row;
    u32 run;
    if (!find_run(p.grid, row, run)) return;
    const u32 column = run * RUN, count = p.dim - column;
    float x[RUN];
    load_run(x, (const From *)p.x + row * p.x_stride + column, count);
    store_run((To *)p.out + row * p.out_stride + column, x, count);
}

KERNEL __launch_bounds__(128) cast_to_act(const __grid_constant__ CastParams p) {
    cast_run<float, ACT>(p);
}
KERNEL __launch_bounds__(128) cast_to_f32(const __grid_constant__ CastParams p) {
    cast_run<ACT, float>(p);
}
KERNEL __launch_bounds__(128) copy_act(const __grid_constant__ CastParams p) {
    cast_run<ACT, ACT>(p);
}
KERNEL __launch_bounds__(128) copy_f32(const __grid_constant__ CastParams p) {
    cast_run<float, float>(p);
}
