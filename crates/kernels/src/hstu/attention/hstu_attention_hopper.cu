// ptx[90a]: 64 -DHEAD_DIM=64
// ptx[90a]: 128 -DHEAD_DIM=128
// ptx[90a]: 256 -DHEAD_DIM=256
//
// HSTU's pointwise attention of bf16 numbers: for the keys that a row sees, the sum of
//
//     out[row] = factor * sum of silu(alpha * q[row] . k[key]) * v[key]
//
// Weights are rounded to bf16, sums are f32. There is no softmax, so the keys of a tile of rows may
// be divided among blocks: sums of parts go to `partials`, and hstu_add_parts.cu adds them.
//
// Blocks stay on their multiprocessor and take items, 128 rows of one sequence and one head, one
// after the other. Tiles of keys are cut at multiples of KEYS from the first position and from
// the first candidate, and are added in ascending order; one that a row does not see changes none
// of its sums. So a row's result does not depend on which rows are beside it, nor on where its
// chunk began.

#include "pages.cuh"

#include "hopper.cuh"

#include "hstu_attention_hopper.cuh"

#include "hstu_bring_tiles.cuh"

#include "hstu_row_half.cuh"

#include "hstu_sum_tiles.cuh"

KERNEL __launch_bounds__(THREADS, 1)
    hstu_attention(const __grid_constant__ HstuAttentionParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    // Passed on among lanes, to show the compiler that they have the same.
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / WARPGROUP, 0);
    const int thread = threadIdx.x % WARPGROUP;
    const Block block = {shared, shared_address(shared)};
    if (threadIdx.x == 0) block.init();
    if (threadIdx.x == 32) prefetch_maps(p);
    __syncthreads();
    wait_for_inputs();
    let_next_start();
    if (warpgroup == 0) {
        give_registers<40>();
        if (thread / 32 == 0) bring_keys(p, block, thread);
        if (thread / 32 == 1) bring_values(p, block, thread % 32);
    } else {
        take_registers<232>();
        sum_items(p, {warpgroup - 1, thread, block});
    }
}
