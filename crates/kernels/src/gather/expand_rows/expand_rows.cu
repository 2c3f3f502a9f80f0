// ptx: wide -DWIDE
// ptx: narrow
//
// Rows copied by index: each row of the output names the row it is a copy of, or each row of the
// input the row it goes to.

#include "prelude.cuh"

struct ExpandRowsParams {
    const u8 *from;   // [rows, row_bytes], or [count, row_bytes]
    const u32 *index; // [count]
    u8 *to;           // [count, row_bytes], or [rows, row_bytes]
    u32 count, row_bytes;
};

#ifdef WIDE
typedef Vec16 Unit;
#else
typedef u32 Unit;
#endif

/// Blocks take units of all rows in turn.
template <bool SCATTERS> DEVICE void copy_rows(const ExpandRowsParams &p) {
    const u32 units = p.row_bytes / sizeof(Unit);
    const u64 total = (u64)p.count * units, step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += step) {
        const u32 row = (u32)(at / units), unit = (u32)(at % units);
        const u64 other = (u64)p.index[row] * units + unit;
        ((Unit *)p.to)[SCATTERS ? other : at] = ((const Unit *)p.from)[SCATTERS ? at : other];
    }
}

KERNEL __launch_bounds__(256) expand_rows(const __grid_constant__ ExpandRowsParams p) {
    let_next_start();
    wait_for_inputs();
    copy_rows<false>(p);
}

KERNEL __launch_bounds__(256) scatter_rows(const __grid_constant__ ExpandRowsParams p) {
    let_next_start();
    wait_for_inputs();
    copy_rows<true>(p);
}
