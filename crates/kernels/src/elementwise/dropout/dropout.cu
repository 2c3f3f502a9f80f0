// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Numbers left out at random: the same ones as on the CPU. A row's random numbers are those of
// SplitMix, a counter and a mix of its bits, so that each can be computed alone.
//
// Roofline: bound by memory where numbers are f32, else by the mixes' multiplications.

#include "prelude.cuh"
#include "run_grid.cuh"

struct DropoutParams {
    const void *x;
    void *out;
    u64 seed;
    /// A number is left out whose upper half of random bits is below; `position` is that of a
    /// sequence's first row.
    u64 threshold, position;
    RunGrid grid;
    u32 dim, x_stride, out_stride;
    /// Of a sequence.
    u32 row_tokens;
    float scale;
};

/// Number `index` of the stream with this seed, as split_mix.rs has it.
DEVICE u64 split_mix(u64 seed, u64 index) {
    u64 mixed = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return mixed ^ mixed >> 31;
}

DEVICE u64 seed_of_row(const DropoutParams &p, u32 row) {
    const u32 seq = row / p.row_tokens;
    const u64 position = p.position + (row - seq * p.row_tokens);
    return p.seed ^ split_mix((u64)seq << 32 | position, 0);
}

template <typename T> DEVICE void drop_run(const DropoutParams &p) {
    let_next_start();
    wait_for_inputs();
    u64 row;
    u32 run;
    if (!find_run(p.grid, row, run)) return;
    const u32 column = run * RUN, count = p.dim - column;
    const u64 seed = seed_of_row(p, (u32)row);
    float x[RUN];
    load_run(x, (const T *)p.x + row * p.x_stride + column, count);
#pragma unroll
    for (u32 i = 0; i < RUN; i++) {
        const u64 bits = split_mix(seed, column + i) >> 32;
        x[i] = bits < p.threshold ? 0.0f : p.scale * x[i];
    }
    store_run((T *)p.out + row * p.out_stride + column, x, count);
}

KERNEL __launch_bounds__(128) dropout(const __grid_constant__ DropoutParams p) {
    drop_run<ACT>(p);
}

KERNEL __launch_bounds__(128) dropout_f32(const __grid_constant__ DropoutParams p) {
    drop_run<float>(p);
}
