// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// What blocks of numbers read as once they are stored in a format, as slot_store.cu stores them. A
// warp has a block, which it may write where it read it. Bound by memory, and with a table of codes
// by the search in it.

#include "slots.cuh"
#include "heads.cuh"
#include "quantise_row.cuh"

static const int WARPS = 8;

struct RoundRowsParams {
    const ACT *x; // `[rows, blocks * dim]`
    ACT *out;     // the same
    const Book *books;
    u32 rows, blocks;
    i32 dim;
    u32 x_stride, out_stride;
    /// A `RowFormat`; before the quantised ones: numbers stay as they are.
    i32 format;
};

template <int GROUPS, int FORMAT>
DEVICE void round_block(const RoundRowsParams &p, const ACT *x, ACT *out) {
    const int lane = threadIdx.x % 32;
    const u64 strides = p.dim | p.x_stride | p.out_stride;
    const u64 bytes = (u64)p.x | (u64)p.out | strides * sizeof(ACT);
    const bool in_fours = bytes % (4 * sizeof(ACT)) == 0;
    Row<GROUPS> row = {};
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at < p.dim) load(row.x[group], x + at, p.dim - at, in_fours);
    }
    if (FORMAT >= ASYMMETRIC_8) round_row(FORMAT, p.books, p.dim, row, lane);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at < p.dim) store(out + at, row.x[group], p.dim - at, in_fours);
    }
}

template <int FORMAT>
DEVICE void round_block(const RoundRowsParams &p, const ACT *x, ACT *out) {
    if (p.dim <= 128) round_block<1, FORMAT>(p, x, out);
    else round_block<2, FORMAT>(p, x, out);
}

/// Each format by itself: where NVRTC joins their branches it does so another way each time that it
/// runs. Grid: enough warps for all blocks of all rows.
KERNEL __launch_bounds__(WARPS * 32) round_rows(const __grid_constant__ RoundRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 index = (u64)blockIdx.x * WARPS + threadIdx.x / 32;
    const u64 row = index / p.blocks;
    if (row >= p.rows) return;
    const u64 column = (index - row * p.blocks) * p.dim;
    const ACT *x = p.x + row * p.x_stride + column;
    ACT *out = p.out + row * p.out_stride + column;
    switch (p.format) {
    case ASYMMETRIC_8: return round_block<ASYMMETRIC_8>(p, x, out);
    case ASYMMETRIC_4: return round_block<ASYMMETRIC_4>(p, x, out);
    case DYNAMIC_8: return round_block<DYNAMIC_8>(p, x, out);
    case FLOAT_4: return round_block<FLOAT_4>(p, x, out);
    case FP8_ROWS: return round_block<FP8_ROWS>(p, x, out);
    default: return round_block<F32_ROWS>(p, x, out);
    }
}
