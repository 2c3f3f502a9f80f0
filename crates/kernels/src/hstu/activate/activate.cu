// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// A function of each number, in place, eight columns a thread. Bound by memory.

#include "prelude.cuh"

#include "silu.cuh"

enum Pointwise { SILU, RELU, GELU };

struct ActivateParams {
    ACT *x;
    u32 dim;
    u32 stride;
    u32 kind;
};

DEVICE float activated(float x, u32 kind) {
    if (kind == SILU) return silu<ACT>(x);
    // Written so that a NaN stays one.
    if (kind == RELU) return x < 0.0f ? 0.0f : x;
    return x * 0.5f * (1.0f + erff(x * 0.70710678f));
}

/// Grid: rows, runs of eight columns.
KERNEL __launch_bounds__(128) activate(const __grid_constant__ ActivateParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 column = 8 * (blockIdx.y * blockDim.x + threadIdx.x);
    if (column >= p.dim) return;
    ACT *x = p.x + (u64)blockIdx.x * p.stride + column;
    if (column + 8 <= p.dim && fits_16((u64)x)) {
        float y[8];
        load8(y, x);
#pragma unroll
        for (int i = 0; i < 8; i++) y[i] = activated(y[i], p.kind);
        store8(x, y);
        return;
    }
    for (u32 i = 0; i < 8 && column + i < p.dim; i++)
        x[i] = round_to<ACT>(activated(widen(x[i]), p.kind));
}
