// ptx: f32 -DACTIVATION=float
// ptx: bf16 -DACTIVATION=bf16
// ptx: f16 -DACTIVATION=f16
//
// activation(gate) * up, row by row, eight columns a thread.
//
// Products leave their columns in one of two ways: all gates, then all ups (two column blocks),
// or eight gates, eight ups, and so on. Both are runs of eight columns that lie `run_step` apart.

#include "prelude.cuh"

struct GateParams {
    const ACTIVATION *gate;
    const ACTIVATION *up;
    ACTIVATION *out;
    u32 dim;
    u32 gate_stride;
    u32 up_stride;
    u32 out_stride;
    u32 run_step;
    u32 is_gelu;
};

/// x / (1 + exp(-y)). Half-width numbers do not show the rounding of the fast instructions.
template <typename T> DEVICE float times_sigmoid(float x, float y) {
    return __fdividef(x, 1.0f + __expf(-y));
}
template <> DEVICE float times_sigmoid<float>(float x, float y) {
    return x / (1.0f + expf(-y));
}

DEVICE float gated(float gate, float up, bool is_gelu) {
    float y = gate;
    if (is_gelu) y = 2.0f * 0.7978846f * (gate + 0.044715f * gate * gate * gate);
    return times_sigmoid<ACTIVATION>(gate, y) * up;
}

/// Grid: runs of eight columns, rows.
KERNEL __launch_bounds__(128) gate(const __grid_constant__ GateParams p) {
    let_next_start();
    wait_for_inputs();
    u32 run = blockIdx.x * blockDim.x + threadIdx.x;
    u32 column = 8 * run;
    if (column >= p.dim) return;
    u64 row = blockIdx.y;
    const ACTIVATION *gate = p.gate + row * p.gate_stride + (u64)run * p.run_step;
    const ACTIVATION *up = p.up + row * p.up_stride + (u64)run * p.run_step;
    ACTIVATION *out = p.out + row * p.out_stride + column;
    bool is_gelu = p.is_gelu;

    u64 addresses = (u64)gate | (u64)up | (u64)out;
    if (column + 8 <= p.dim && fits_16(addresses)) {
        float x[8], y[8];
        load8(x, gate);
        load8(y, up);
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = gated(x[i], y[i], is_gelu);
        store8(out, x);
        return;
    }
    for (u32 i = 0; i < 8 && column + i < p.dim; ++i) {
        out[i] = round_to<ACTIVATION>(gated(widen(gate[i]), widen(up[i]), is_gelu));
    }
}
