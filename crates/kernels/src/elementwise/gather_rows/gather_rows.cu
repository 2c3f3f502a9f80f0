// ptx: any
//
// Picked rows of a matrix, in the order asked for; bytes are moved, whatever they mean.

#include "prelude.cuh"

struct GatherRowsParams {
    const u8 *x;
    const i32 *rows;
    u8 *out;
    u64 x_stride;
    u64 out_stride;
    u64 row_bytes;
};

template <typename Unit> DEVICE void copy_row(u8 *to, const u8 *from, u64 bytes) {
    u64 step = (u64)gridDim.y * blockDim.x * sizeof(Unit);
    u64 start = (u64)(blockIdx.y * blockDim.x + threadIdx.x) * sizeof(Unit);
    for (u64 at = start; at < bytes; at += step) *(Unit *)(to + at) = *(const Unit *)(from + at);
}

/// Grid: picked rows, parts of a row.
KERNEL __launch_bounds__(256) gather_rows(const __grid_constant__ GatherRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const u8 *from = p.x + (i64)p.rows[blockIdx.x] * p.x_stride;
    u8 *to = p.out + blockIdx.x * p.out_stride;
    if (fits_16((u64)from | (u64)to | p.row_bytes)) {
        copy_row<Vec16>(to, from, p.row_bytes);
    } else {
        copy_row<u16>(to, from, p.row_bytes);
    }
}
