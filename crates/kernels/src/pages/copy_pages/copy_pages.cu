// ptx: any
//
// Whole pages copied inside one pool, pair after pair.
//
// A later pair may read the page an earlier one wrote. Each thread owns some offsets inside a
// page and walks all pairs in order, so the order holds without any barrier.

#include "prelude.cuh"

struct CopyPagesParams {
    u8 *pages;
    /// (from, to)
    const i32 *pairs;
    u64 page_bytes;
    u32 copies;
};

template <typename Unit> DEVICE void copy_all(const CopyPagesParams &p) {
    u64 step = (u64)gridDim.x * blockDim.x * sizeof(Unit);
    u64 start = (u64)(blockIdx.x * blockDim.x + threadIdx.x) * sizeof(Unit);
    for (u64 at = start; at < p.page_bytes; at += step) {
        for (u32 copy = 0; copy < p.copies; ++copy) {
            u64 from = (u64)p.pairs[2 * copy], to = (u64)p.pairs[2 * copy + 1];
            *(Unit *)(p.pages + to * p.page_bytes + at) =
                *(const Unit *)(p.pages + from * p.page_bytes + at);
        }
    }
}

KERNEL __launch_bounds__(256) copy_pages(const __grid_constant__ CopyPagesParams p) {
    let_next_start();
    wait_for_inputs();
    if (fits_16((u64)p.pages | p.page_bytes)) {
        copy_all<Vec16>(p);
    } else {
        copy_all<u8>(p);
    }
}
