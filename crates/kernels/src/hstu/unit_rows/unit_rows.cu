// ptx: f32 -DOUT=float
// ptx: bf16 -DOUT=bf16
// ptx: f16 -DOUT=f16
//
// Chosen rows of the f32 stream, each divided by its length; a block has one row. Bound by memory.

#include "prelude.cuh"

#include "row_runs.cuh"

struct UnitRowsParams {
    const float *x;
    const i32 *rows; // negative: nothing to do
    OUT *out;
    u32 dim;
    u32 x_stride;
    u32 out_stride;
    float least;
};

template <int WIDTH> DEVICE void unit_row(const UnitRowsParams &p) {
    const i64 row = p.rows[blockIdx.x];
    if (row < 0) return;
    RowRuns<WIDTH, float> runs = {p.x + row * p.x_stride, p.dim};
    OUT *out = p.out + (u64)blockIdx.x * p.out_stride;
    runs.load_kept();
    float squares = 0.0f;
    runs.for_each([&](u32, const float(&x)[WIDTH]) { squares += squares_of(x, 0.0f); });
    const float found = sqrtf(block_sum<0>(squares));
    // In this order a NaN stays one.
    const float length = found < p.least ? p.least : found;
    runs.for_each([&](u32 at, const float(&x)[WIDTH]) {
        float y[WIDTH];
#pragma unroll
        for (int i = 0; i < WIDTH; i++) y[i] = x[i] / length;
        store_run(out + at, y);
    });
}

/// Grid: rows that are picked.
KERNEL __launch_bounds__(1024) unit_rows(const __grid_constant__ UnitRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 strides = (u64)p.x_stride * sizeof(float) | (u64)p.out_stride * sizeof(OUT);
    if (p.dim % 8 == 0 && fits_16(strides | (u64)p.x | (u64)p.out)) unit_row<8>(p);
    else unit_row<1>(p);
}
