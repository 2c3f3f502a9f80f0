// ptx: f32 -DOUT=float
// ptx: bf16 -DOUT=bf16
// ptx: f16 -DOUT=f16
//
// (x - mean) / sqrt(variance + eps) * weight + bias for each row of the f32 stream; a block has one
// row. Bound by memory: a row is read once and written once.

#include "prelude.cuh"

#include "row_runs.cuh"

struct LayerNormParams {
    float *x;
    const OUT *delta;
    /// f32 [dim] both, or null both.
    const float *weight, *bias;
    OUT *out;
    u32 dim;
    u32 x_stride;
    u32 delta_stride;
    u32 out_stride;
    float eps;
    /// Of add_rows: the row of x for each of delta, negative for none; null: the same.
    const i32 *rows;
};

/// x += delta in a thread's runs, in memory too. Both are loaded before the first store, which
/// might otherwise hold the loads back.
template <int WIDTH>
DEVICE void add_delta(RowRuns<WIDTH, float> &runs, float *x, const OUT *delta) {
    float more[KEPT][WIDTH];
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const u32 at = runs.start() + i * runs.step();
        if (at < runs.length) load_run(more[i], delta + at);
    }
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const u32 at = runs.start() + i * runs.step();
        if (at < runs.length) {
#pragma unroll
            for (int j = 0; j < WIDTH; j++) runs.kept[i][j] += more[i][j];
            store_run(x + at, runs.kept[i]);
        }
    }
#pragma unroll 1
    for (u32 at = runs.start() + KEPT * runs.step(); at < runs.length; at += runs.step()) {
        float sum[WIDTH], added[WIDTH];
        load_run(sum, x + at);
        load_run(added, delta + at);
#pragma unroll
        for (int j = 0; j < WIDTH; j++) sum[j] += added[j];
        store_run(x + at, sum);
    }
}

template <int WIDTH, bool ADD> DEVICE void norm_row(const LayerNormParams &p) {
    float *x = p.x + (u64)blockIdx.x * p.x_stride;
    OUT *out = p.out + (u64)blockIdx.x * p.out_stride;
    RowRuns<WIDTH, float> runs = {x, p.dim};
    runs.load_kept();
    if (ADD) add_delta(runs, x, p.delta + (u64)blockIdx.x * p.delta_stride);
    const RowStatistics row = statistics(runs, p.eps);
    runs.for_each([&](u32 at, const float(&x)[WIDTH]) {
        float y[WIDTH], weight[WIDTH], bias[WIDTH];
        if (p.weight) load_run(weight, p.weight + at), load_run(bias, p.bias + at);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            y[i] = (x[i] - row.mean) * row.factor;
            if (p.weight) y[i] = __fmaf_rn(y[i], weight[i], bias[i]);
        }
        store_run(out + at, y);
    });
}

template <bool ADD> DEVICE void norm_any_row(const LayerNormParams &p) {
    let_next_start();
    wait_for_inputs();
    const u64 delta_stride = (u64)(ADD ? p.delta_stride : 0) * sizeof(OUT);
    const u64 strides = (u64)p.x_stride * sizeof(float) | delta_stride;
    const u64 inputs = (u64)p.x | (u64)p.weight | (u64)p.bias | (ADD ? (u64)p.delta : 0);
    const u64 output = (u64)p.out | (u64)p.out_stride * sizeof(OUT);
    if (p.dim % 8 == 0 && fits_16(strides | inputs | output)) norm_row<8, ADD>(p);
    else norm_row<1, ADD>(p);
}

KERNEL __launch_bounds__(1024) layer_norm(const __grid_constant__ LayerNormParams p) {
    norm_any_row<false>(p);
}

/// x += delta, then out = norm of x.
KERNEL __launch_bounds__(1024) add_layer_norm(const __grid_constant__ LayerNormParams p) {
    norm_any_row<true>(p);
}

/// x += delta.
KERNEL __launch_bounds__(1024) add_rows(const __grid_constant__ LayerNormParams p) {
    let_next_start();
    wait_for_inputs();
    const i64 row = p.rows ? p.rows[blockIdx.x] : (i64)blockIdx.x;
    if (row < 0) return;
    float *x = p.x + row * p.x_stride;
    const OUT *delta = p.delta + (u64)blockIdx.x * p.delta_stride;
    const u64 strides = (u64)p.x_stride * sizeof(float) | (u64)p.delta_stride * sizeof(OUT);
    if (p.dim % 8 == 0 && fits_16(strides | (u64)p.x | (u64)p.delta)) {
        RowRuns<8, float> runs = {x, p.dim};
        runs.load_kept();
        add_delta(runs, x, delta);
    } else {
        RowRuns<1, float> runs = {x, p.dim};
        runs.load_kept();
        add_delta(runs, x, delta);
    }
}
