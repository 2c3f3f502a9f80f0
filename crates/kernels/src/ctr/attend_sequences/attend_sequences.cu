// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Attention of one short sequence of each sample to another. A block has one head of a sample, a
// warp some of its queries, with their scores in shared memory.

#include "ctr_numbers.cuh"

struct AttendSequencesParams {
    CtrRows q, k, v, mask, out; // without a mask its address is null
    u32 rows, columns, heads, dim;
    float scale;
};

/// What a key that shall not be seen has taken off its score, and what is added to a masked sum.
#define HIDDEN 10000.0f
#define ADDED 1e-6f

/// Grid: samples, heads.
KERNEL __launch_bounds__(128) attend_sequences(const __grid_constant__ AttendSequencesParams p) {
    extern __shared__ float scores_of_warps[];
    let_next_start();
    wait_for_inputs();
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const u64 sample = blockIdx.x;
    const u32 hidden = p.heads * p.dim, first = blockIdx.y * p.dim;
    float *scores = scores_of_warps + warp * p.columns;
    for (u32 row = warp; row < p.rows; row += warps) {
        float largest = __uint_as_float(0xff800000u), most = largest;
        if (p.mask.data) {
            for (u32 key = lane; key < p.columns; key += 32)
                most = fmaxf(most, p.mask.get(sample, row * p.columns + key));
            most = warp_max(most);
        }
        for (u32 key = lane; key < p.columns; key += 32) {
            float score = 0.0f;
            for (u32 i = 0; i < p.dim; i++) {
                const float k = p.k.get(sample, key * hidden + first + i);
                score = fmaf(p.q.get(sample, row * hidden + first + i), k, score);
            }
            score *= p.scale;
            if (p.mask.data)
                score -= (most - p.mask.get(sample, row * p.columns + key)) * HIDDEN;
            scores[key] = score;
            largest = fmaxf(largest, score);
        }
        largest = warp_max(largest);
        float sum = 0.0f;
        for (u32 key = lane; key < p.columns; key += 32) {
            const float power = expf(scores[key] - largest);
            scores[key] = power;
            sum += power;
        }
        const float factor = 1.0f / (warp_sum(sum) + (p.mask.data ? ADDED : 0.0f));
        __syncwarp();
        for (u32 i = lane; i < p.dim; i += 32) {
            float value = 0.0f;
            for (u32 key = 0; key < p.columns; key++)
                value = fmaf(scores[key], p.v.get(sample, key * hidden + first + i), value);
            p.out.put(sample, row * hidden + first + i, value * factor);
        }
        __syncwarp();
    }
}
