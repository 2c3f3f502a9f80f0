// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// u * norm(attention), where u may go through SiLU first, with u and attention beside it if asked.
// A block has what one mean and one variance are of: a row, or a head of it. Bound by memory: all
// is read once and written once.

#include "prelude.cuh"

#include "row_runs.cuh"

#include "silu.cuh"

enum GatedForm { GATED, WITH_ATTENTION, WITH_NORMED };

struct GatedNormParams {
    const ACT *attention;
    const ACT *u;
    /// f32 [dim], by head [heads], or null both.
    const float *weight, *bias;
    ACT *out;
    /// Of a row, and of what a block has.
    u32 dim, width;
    u32 attention_stride;
    u32 u_stride;
    u32 out_stride;
    u32 activates;
    u32 form;
    u32 by_head;
    float eps;
    u32 rows;
    /// [rows]: those that are picked; negative: nothing to do. Null: all.
    const i32 *picked;

    DEVICE i64 row_of(u64 row) const { return picked ? picked[row] : (i64)row; }
};

template <int WIDTH> DEVICE void gate_row(const GatedNormParams &p) {
    const i64 row = p.row_of(blockIdx.x);
    if (row < 0) return;
    const u32 head = blockIdx.y, first = head * p.width;
    ACT *out = p.out + (u64)blockIdx.x * p.out_stride + first;
    RowRuns<WIDTH, ACT> runs = {p.attention + row * p.attention_stride + first, p.width};
    RowRuns<WIDTH, ACT> gates = {p.u + row * p.u_stride + first, p.width};
    runs.load_kept();
    gates.load_kept();
    const RowStatistics norm = statistics(runs, p.eps);
    runs.for_each_with(gates, [&](u32 at, const float(&a)[WIDTH], const float(&u)[WIDTH]) {
        float gate[WIDTH], normed[WIDTH], gated[WIDTH], weight[WIDTH], bias[WIDTH];
        if (p.weight && !p.by_head)
            load_run(weight, p.weight + at), load_run(bias, p.bias + at);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            if (p.weight && p.by_head) weight[i] = p.weight[head], bias[i] = p.bias[head];
            normed[i] = (a[i] - norm.mean) * norm.factor;
            if (p.weight) normed[i] = __fmaf_rn(normed[i], weight[i], bias[i]);
            gate[i] = p.activates ? silu<ACT>(u[i]) : u[i];
            gated[i] = gate[i] * normed[i];
        }
        if (p.form == GATED) return store_run(out + at, gated);
        store_run(out + at, gate);
        if (p.form == WITH_NORMED) store_run(out + p.dim + at, normed);
        else store_run(out + p.dim + at, a);
        store_run(out + 2 * p.dim + at, gated);
    });
}

/// A warp has a row of 256 * RUNS numbers, all of it in registers, and needs no other warp.
template <int RUNS> DEVICE void gate_row_by_warp(const GatedNormParams &p, u64 number) {
    const i64 row = p.row_of(number);
    if (row < 0) return;
    const u32 first = threadIdx.x % 32 * 8;
    const ACT *attention = p.attention + row * p.attention_stride + first;
    const ACT *gates = p.u + row * p.u_stride + first;
    float a[RUNS][8], u[RUNS][8];
#pragma unroll
    for (int i = 0; i < RUNS; i++) load8(a[i], attention + 256 * i);
#pragma unroll
    for (int i = 0; i < RUNS; i++) load8(u[i], gates + 256 * i);
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < RUNS; i++) sum += sum_of(a[i]);
    const float mean = warp_sum(sum) / (256 * RUNS);
#pragma unroll
    for (int i = 0; i < RUNS; i++) squares += squares_of(a[i], mean);
    const float factor = 1.0f / sqrtf(warp_sum(squares) / (256 * RUNS) + p.eps);
    ACT *out = p.out + number * p.out_stride + first;
#pragma unroll
    for (int i = 0; i < RUNS; i++) {
        float weight[8], bias[8], gated[8];
        if (p.weight) {
            load8(weight, p.weight + first + 256 * i);
            load8(bias, p.bias + first + 256 * i);
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float normed = (a[i][j] - mean) * factor;
            if (p.weight) normed = __fmaf_rn(normed, weight[j], bias[j]);
            gated[j] = (p.activates ? silu<ACT>(u[i][j]) : u[i][j]) * normed;
        }
        store8(out + 256 * i, gated);
    }
}

/// As `gated_norm` where a row has one norm, 256, 512 or 1024 numbers on 16 bytes, and nothing
/// beside what is gated. Grid: warps, one for each row.
KERNEL __launch_bounds__(128) gated_norm_by_warp(const __grid_constant__ GatedNormParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 row = (u64)blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= p.rows) return;
    switch (p.dim) {
    case 256: return gate_row_by_warp<1>(p, row);
    case 512: return gate_row_by_warp<2>(p, row);
    default: return gate_row_by_warp<4>(p, row);
    }
}

/// Grid: rows, heads of a row that have a norm each.
KERNEL __launch_bounds__(1024) gated_norm(const __grid_constant__ GatedNormParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 strides = (u64)(p.attention_stride | p.u_stride | p.out_stride) * sizeof(ACT);
    const u64 numbers = (u64)p.attention | (u64)p.u | (u64)p.out;
    const u64 weights = (u64)p.weight | (u64)p.bias;
    if ((p.width | p.dim) % 8 == 0 && fits_16(strides | numbers | weights)) gate_row<8>(p);
    else gate_row<1>(p);
}
