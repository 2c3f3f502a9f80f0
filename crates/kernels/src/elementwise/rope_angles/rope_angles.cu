// ptx: f32
//
// Cosine and sine of each token's rotation, computed once a step for all layers.
//
// As in the reference the angle is an f32 product, and its sine and cosine are those of f64: at
// position 1,000,000 an f32 sine would be wrong in the fourth digit.

#include "prelude.cuh"

struct RopeAnglesParams {
    const i32 *positions;
    /// f32 [seqs, pairs]
    const float *inv_freqs;
    /// i32 [tokens], or null where all rows are rotated by the first of them.
    const i32 *row_seqs;
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
    const u32 token = index / p.pairs;
    const u32 seq = p.row_seqs ? p.row_seqs[token] : 0;
    const float inv_freq = p.inv_freqs[seq * p.pairs + index % p.pairs];
    float angle = __fmul_rn((float)p.positions[token], inv_freq);
    double sine, cosine;
    sincos((double)angle, &sine, &cosine);
    p.cos[index] = __fmul_rn((float)cosine, p.scale);
    p.sin[index] = __fmul_rn((float)sine, p.scale);
}
