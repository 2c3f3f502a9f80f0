// Rows of numbers in runs of eight neighbours, one run a thread: the twin of run_grid.rs. A block
// has a part of one long row, or several short ones. To be included after prelude.cuh.

static const u32 RUN = 8;
static const u32 RUN_THREADS = 128;

struct RunGrid {
    u32 rows;
    /// Of each row, and rows of a block: more than one only where all their runs fit into it.
    u32 runs, block_rows;
};

/// The run of this thread; false where it has none.
DEVICE bool find_run(const RunGrid &grid, u64 &row, u32 &run) {
    const u32 row_of_block = threadIdx.x / grid.runs;
    row = (u64)blockIdx.x * grid.block_rows + row_of_block;
    run = threadIdx.x - row_of_block * grid.runs + blockIdx.y * RUN_THREADS;
    return row_of_block < grid.block_rows && row < grid.rows && run < grid.runs;
}

/// The first `count` of eight numbers, zeros for the others.
template <typename T> DEVICE void load_run(float x[RUN], const T *from, u32 count) {
    if (RUN <= count && fits_16((u64)from)) return load8(x, from);
#pragma unroll
    for (u32 i = 0; i < RUN; i++) x[i] = i < count ? widen(from[i]) : 0.0f;
}

/// Writes the first `count` of eight numbers.
template <typename T> DEVICE void store_run(T *to, const float x[RUN], u32 count) {
    if (RUN <= count && fits_16((u64)to)) return store8(to, x);
#pragma unroll
    for (u32 i = 0; i < RUN; i++)
        if (i < count) to[i] = round_to<T>(x[i]);
}
