// ptx: f32
//
// Items that a query is not to find: their scores become minus infinity.

#include "prelude.cuh"

struct ExcludeItemsParams {
    float *scores;      // [queries, stride]
    const i32 *starts;  // [queries + 1]
    const i32 *rows;    // [starts[queries]]
    u32 item_count, stride;
};

/// Grid: some blocks, queries. A row that is not there is passed over.
KERNEL __launch_bounds__(256) exclude_items(const __grid_constant__ ExcludeItemsParams p) {
    wait_for_inputs();
    let_next_start();
    const i32 first = p.starts[blockIdx.y], end = p.starts[blockIdx.y + 1];
    const i32 step = gridDim.x * blockDim.x;
    for (i32 i = first + blockIdx.x * blockDim.x + threadIdx.x; i < end; i += step) {
        const u32 row = p.rows[i];
        if (row < p.item_count)
            p.scores[(u64)blockIdx.y * p.stride + row] = __uint_as_float(0xff800000);
    }
}
