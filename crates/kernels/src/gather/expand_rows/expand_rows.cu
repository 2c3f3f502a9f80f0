// ptx: wide -DWIDE
// ptx: narrow
//
// Rows copied by index: each row of the output names the row it is a copy of.

#include "prelude.cuh"

struct ExpandRowsParams {
    const u8 *from;   // [rows, row_bytes]
    const u32 *index; // [count]
    u8 *to;           // [count, row_bytes]
    u32 count, row_bytes;
};

#ifdef WIDE
typedef Vec16 Unit;
#else
typedef u32 Unit;
#endif

/// Grid: blocks take units of the output in turn.
KERNEL __launch_bounds__(256) expand_rows(const __grid_constant__ ExpandRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 units = p.row_bytes / sizeof(Unit);
    const u64 total = (u64)p.count * units, step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += step) {
        const u32 row = (u32)(at / units), unit = (u32)(at % units);
        ((Unit *)p.to)[at] = ((const Unit *)p.from)[(u64)p.index[row] * units + unit];
    }
}
