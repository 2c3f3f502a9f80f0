// ptx: f32
//
// Cosine and sine of each token's rotation, computed once a step for all layers.
//
// As in the reference the angle is an f32 product, and its sine and cosine are those of f64: at
// position 1,000,000 an f32 sine would be wrong in the fourth digit.

#include "prelude.cuh"

struct RopeAnglesParams {
    const i32 *positions;
    const float *inv_freq;
    float *cos;
    float *sin;
    u32 tokens;
    u32 pairs;
    float scale;
};

KERNEL __launch_bounds__(128) rope_angles(const __grid_constant__ RopeAnglesParams p) {
    let_next_start();
    wait_for_inputs();
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= p.tokens * p.pairs) return;
    float angle = __fmul_rn((float)p.positions[index / p.pairs], p.inv_freq[index % p.pairs]);
    double sine, cosine;
    sincos((double)angle, &sine, &cosine);
    p.cos[index] = __fmul_rn((float)cosine, p.scale);
    p.sin[index] = __fmul_rn((float)sine, p.scale);
}
