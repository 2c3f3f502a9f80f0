// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Pairs of numbers of each head, rotated by the token's angles where they lie, one way or back. A
// thread has eight pairs of one head. Bound by memory.

#include "prelude.cuh"
#include "run_grid.cuh"

struct RopeParams {
    void *x;
    const float *cos, *sin;
    /// Tokens, and the runs of pairs of all heads of one.
    RunGrid grid;
    u32 pairs, head_runs, dim;
    u32 x_stride, cos_stride, sin_stride;
    i32 is_interleaved, is_back;
};

/// Turns a pair. Without fused operations, because the CPU rounds as often.
DEVICE void rotate(float &first, float &second, float cos, float sin) {
    const float a = first, b = second;
    first = __fsub_rn(__fmul_rn(a, cos), __fmul_rn(b, sin));
    second = __fadd_rn(__fmul_rn(b, cos), __fmul_rn(a, sin));
}

/// The first `count` of eight pairs whose two numbers are neighbours.
template <typename T>
DEVICE void rotate_interleaved(T *x, const float cos[RUN], const float sin[RUN], u32 count) {
    const u32 numbers = 2 * count, behind = RUN < numbers ? numbers - RUN : 0;
    float both[2 * RUN];
    load_run(both, x, numbers);
    load_run(both + RUN, x + RUN, behind);
#pragma unroll
    for (u32 i = 0; i < RUN; i++) rotate(both[2 * i], both[2 * i + 1], cos[i], sin[i]);
    store_run(x, both, numbers);
    store_run(x + RUN, both + RUN, behind);
}

/// The first `count` of eight pairs whose second numbers are together, from `second` on.
template <typename T>
DEVICE void rotate_halves(T *first, T *second, const float cos[RUN], const float sin[RUN],
                          u32 count) {
    float a[RUN], b[RUN];
    load_run(a, first, count);
    load_run(b, second, count);
#pragma unroll
    for (u32 i = 0; i < RUN; i++) rotate(a[i], b[i], cos[i], sin[i]);
    store_run(first, a, count);
    store_run(second, b, count);
}

template <typename T> DEVICE void rotate_run(const RopeParams &p) {
    let_next_start();
    wait_for_inputs();
    u64 token;
    u32 run;
    if (!find_run(p.grid, token, run)) return;
    const u32 head = run / p.head_runs, pair = (run - head * p.head_runs) * RUN;
    const u32 count = p.pairs - pair;
    float cos[RUN], sin[RUN];
    load_run(cos, p.cos + token * p.cos_stride + pair, count);
    load_run(sin, p.sin + token * p.sin_stride + pair, count);
#pragma unroll
    for (u32 i = 0; i < RUN; i++) sin[i] = p.is_back ? -sin[i] : sin[i];
    T *x = (T *)p.x + token * p.x_stride + (u64)head * p.dim;
    if (p.is_interleaved) rotate_interleaved(x + 2 * pair, cos, sin, min(count, RUN));
    else rotate_halves(x + pair, x + p.pairs + pair, cos, sin, count);
}

KERNEL __launch_bounds__(128) rope(const __grid_constant__ RopeParams p) {
    rotate_run<ACT>(p);
}

/// Of gradients.
KERNEL __launch_bounds__(128) rope_f32(const __grid_constant__ RopeParams p) {
    rotate_run<float>(p);
}
