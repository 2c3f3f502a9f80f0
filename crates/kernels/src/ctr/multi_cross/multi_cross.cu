// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// All layers of a cross network whose weights are vectors; a block has one row, which stays in
// shared memory. Bound by reading weights from the second-level cache.

#include "ctr_numbers.cuh"

struct MultiCrossParams {
    CtrRows x, out;
    const float *weights, *biases; // [layers, dim]
    u32 dim, layers;
};

/// The sum over a block; all threads get it.
DEVICE float block_total(float x) {
    __shared__ float sums[32];
    const float sum = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0.0f;
    for (u32 i = 0; i < blockDim.x / 32; i++) total += sums[i];
    return total;
}

/// Grid: a block for each row. Each thread has its own columns in all layers.
KERNEL __launch_bounds__(128) multi_cross(const __grid_constant__ MultiCrossParams p) {
    extern __shared__ float now[];
    let_next_start();
    wait_for_inputs();
    const u64 row = blockIdx.x;
    for (u32 i = threadIdx.x; i < p.dim; i += blockDim.x) now[i] = p.x.get(row, i);
    for (u32 layer = 0; layer < p.layers; layer++) {
        const float *weights = p.weights + (u64)layer * p.dim;
        const float *biases = p.biases + (u64)layer * p.dim;
        float mine = 0.0f;
        for (u32 i = threadIdx.x; i < p.dim; i += blockDim.x) mine = fmaf(now[i], weights[i], mine);
        const float product = block_total(mine);
        for (u32 i = threadIdx.x; i < p.dim; i += blockDim.x)
            now[i] += fmaf(p.x.get(row, i), product, biases[i]);
    }
    for (u32 i = threadIdx.x; i < p.dim; i += blockDim.x) p.out.put(row, i, now[i]);
}
