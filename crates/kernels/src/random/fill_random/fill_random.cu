// ptx: any
//
// Random weights for measurements: number i is a function of the seed and of i.
//
// The numbers are near-normal: sums of eight uniform 16-bit numbers, scaled. Only whole numbers
// are summed and one product is rounded, so every device gives the same bits.

#include "prelude.cuh"

struct FillRandomParams {
    void *out;
    u64 seed;
    u64 count;
    float factor;
};

DEVICE Vec16 words(u64 index, u64 seed) {
    return philox({(u32)index, (u32)(index >> 32), 0, 0}, seed);
}

/// Mean 0, standard deviation `factor`.
DEVICE float number(u64 index, u64 seed, float factor) {
    Vec16 random = words(index, seed);
    // Twice the distance from the mean, to stay whole.
    i32 sum = -8 * 65535;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        sum += 2 * (i32)((random.word[i] & 0xffff) + (random.word[i] >> 16));
    }
    // The deviation of a sum of eight is 65536 * sqrt(8 / 12).
    return __fmul_rn(__fmul_rn((float)sum, 1.0f / 107019.84f), factor);
}

template <typename T> DEVICE void fill(const FillRandomParams &p) {
    let_next_start();
    wait_for_inputs();
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
        ((T *)p.out)[i] = narrow<T>(number(i, p.seed, p.factor));
    }
}

KERNEL __launch_bounds__(256) fill_f32(const __grid_constant__ FillRandomParams p) {
    fill<float>(p);
}
KERNEL __launch_bounds__(256) fill_bf16(const __grid_constant__ FillRandomParams p) {
    fill<bf16>(p);
}
KERNEL __launch_bounds__(256) fill_f16(const __grid_constant__ FillRandomParams p) {
    fill<f16>(p);
}

/// `count` words of random bits.
KERNEL __launch_bounds__(256) fill_bits(const __grid_constant__ FillRandomParams p) {
    let_next_start();
    wait_for_inputs();
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
        ((u32 *)p.out)[i] = words(i, p.seed).word[0];
    }
}
