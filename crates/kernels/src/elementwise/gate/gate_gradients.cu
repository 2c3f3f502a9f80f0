// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// d_gate = d_out * up * activation'(gate) and d_up = d_out * activation(gate), row by row.
//
// Roofline: 16 bytes (20 where all is f32) and some forty operations a number; bound by memory.

#include "prelude.cuh"
#include "run_grid.cuh"

struct GateGradientsParams {
    const ACT *gate, *up;
    const float *d_out;
    float *d_gate, *d_up;
    RunGrid grid;
    u32 dim;
    u32 gate_stride, up_stride, d_out_stride, d_gate_stride, d_up_stride;
    u32 is_gelu;
};

/// 1 / (1 + exp(-y)), and what it lacks of one: neither is the difference of two large numbers.
struct Sigmoid {
    float value, rest;
};

/// Half-width numbers do not show the rounding of the fast instructions.
template <typename T> DEVICE Sigmoid sigmoid(float y) {
    const bool is_exact = sizeof(T) == sizeof(float);
    const float power = is_exact ? expf(-fabsf(y)) : __expf(-fabsf(y));
    const float larger = is_exact ? 1.0f / (1.0f + power) : __fdividef(1.0f, 1.0f + power);
    const float smaller = power * larger;
    // A NaN is not below zero, and stays one.
    return y < 0.0f ? Sigmoid{smaller, larger} : Sigmoid{larger, smaller};
}

/// Makes `gate` and `up` their gradients.
DEVICE void to_gradients(float &gate, float &up, float d_out, bool is_gelu) {
    const float x = gate;
    float y = x, slope = 1.0f;
    if (is_gelu) {
        const float factor = 2.0f * 0.7978846f, cubic = 0.044715f;
        y = factor * (x + cubic * x * x * x);
        slope = factor * (1.0f + 3.0f * cubic * x * x);
    }
    const Sigmoid share = sigmoid<ACT>(y);
    gate = d_out * up * share.value * (1.0f + x * slope * share.rest);
    up = d_out * x * share.value;
}

KERNEL __launch_bounds__(128) gate_gradients(const __grid_constant__ GateGradientsParams p) {
    let_next_start();
    wait_for_inputs();
    u64 row;
    u32 run;
    if (!find_run(p.grid, row, run)) return;
    const u32 column = run * RUN, count = p.dim - column;
    float gate[RUN], up[RUN], d_out[RUN];
    load_run(gate, p.gate + row * p.gate_stride + column, count);
    load_run(up, p.up + row * p.up_stride + column, count);
    load_run(d_out, p.d_out + row * p.d_out_stride + column, count);
#pragma unroll
    for (u32 i = 0; i < RUN; i++) to_gradients(gate[i], up[i], d_out[i], p.is_gelu);
    store_run(p.d_gate + row * p.d_gate_stride + column, gate, count);
    store_run(p.d_up + row * p.d_up_stride + column, up, count);
}
