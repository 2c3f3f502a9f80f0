// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Branches of low rank beside products that are served, a few tokens at a time: twins of
// apply_branch.rs. A token's numbers are added up in an order that no other token changes.

#include "prelude.cuh"
#include "run_grid.cuh"

static const u32 THREADS = 256;
static const u32 WARPS = THREADS / 32;
/// Tokens of a block, which read the branch's matrices once together.
static const u32 TOKENS = 8;

struct BranchInnerParams {
    const void *x;
    const float *a;
    float *inner;
    u32 tokens, columns, rank;
    u32 x_stride;
};

/// What happens to a branch's outputs, as `BranchForm` has it.
enum BranchForm { ADDED, NORMED, SCALED };

struct BranchAddParams {
    const float *inner, *b;
    /// Of a norm its weight, of lengths the factors; null where it is added.
    const float *numbers;
    /// Null without one.
    const float *bias;
    void *out;
    u32 tokens, rows, rank;
    u32 out_stride;
    float scale, eps;
    u32 form;
};

/// `inner = x * a^T`. Grid: ranks of a warp each, tokens.
KERNEL __launch_bounds__(256) branch_inner(const __grid_constant__ BranchInnerParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 lane = threadIdx.x % 32, row = blockIdx.x * WARPS + threadIdx.x / 32;
    const u32 first = blockIdx.y * TOKENS;
    if (row >= p.rank) return;
    const float *a = p.a + (u64)row * p.columns;
    const ACT *x = (const ACT *)p.x + (u64)first * p.x_stride;
    const u32 count = min(TOKENS, p.tokens - first);
    float sums[TOKENS] = {};
    for (u32 column = lane * RUN; column < p.columns; column += 32 * RUN) {
        float weights[RUN];
        load_run(weights, a + column, p.columns - column);
#pragma unroll
        for (u32 token = 0; token < TOKENS; token++) {
            if (token >= count) break;
            float numbers[RUN];
            load_run(numbers, x + (u64)token * p.x_stride + column, p.columns - column);
#pragma unroll
            for (u32 i = 0; i < RUN; i++) sums[token] += weights[i] * numbers[i];
        }
    }
#pragma unroll
    for (u32 token = 0; token < TOKENS; token++) {
        const float sum = warp_sum(sums[token]);
        if (lane == 0 && token < count) p.inner[(u64)(first + token) * p.rank + row] = sum;
    }
}

/// An output of the branch for each of some tokens.
DEVICE void branch_outputs(const BranchAddParams &p, u32 first, u32 count, u32 row,
                           float out[TOKENS]) {
    const float *b = p.b + (u64)row * p.rank, *inner = p.inner + (u64)first * p.rank;
#pragma unroll
    for (u32 token = 0; token < TOKENS; token++) out[token] = 0.0f;
    for (u32 k = 0; k < p.rank; k++) {
        const float weight = b[k];
#pragma unroll
        for (u32 token = 0; token < TOKENS; token++)
            if (token < count) out[token] += weight * inner[(u64)token * p.rank + k];
    }
#pragma unroll
    for (u32 token = 0; token < TOKENS; token++) out[token] *= p.scale;
}

/// Outputs of all tokens, a thread each. Grid: outputs, tokens.
template <typename T> DEVICE void add_outputs(const BranchAddParams &p) {
    let_next_start();
    wait_for_inputs();
    const u32 row = blockIdx.x * THREADS + threadIdx.x, first = blockIdx.y * TOKENS;
    if (row >= p.rows) return;
    const u32 count = min(TOKENS, p.tokens - first);
    float added[TOKENS];
    branch_outputs(p, first, count, row, added);
    T *out = (T *)p.out + (u64)first * p.out_stride + row;
#pragma unroll
    for (u32 token = 0; token < TOKENS; token++) {
        if (token >= count) break;
        T *to = out + (u64)token * p.out_stride;
        float sum = widen(*to) + added[token];
        if (p.form == SCALED) sum = sum * p.numbers[row] + (p.bias ? p.bias[row] : 0.0f);
        *to = round_to<T>(sum);
    }
}

/// The norm of a token's outputs, which are computed once for it and once to be added. Grid: one,
/// tokens.
template <typename T> DEVICE void add_norms(const BranchAddParams &p) {
    __shared__ float parts[TOKENS][WARPS];
    let_next_start();
    wait_for_inputs();
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 first = blockIdx.y * TOKENS, count = min(TOKENS, p.tokens - first);
    float squares[TOKENS] = {}, added[TOKENS];
    for (u32 row = threadIdx.x; row < p.rows; row += THREADS) {
        branch_outputs(p, first, count, row, added);
#pragma unroll
        for (u32 token = 0; token < TOKENS; token++)
            squares[token] += added[token] * added[token];
    }
#pragma unroll
    for (u32 token = 0; token < TOKENS; token++) {
        const float sum = warp_sum(squares[token]);
        if (lane == 0) parts[token][warp] = sum;
    }
    __syncthreads();
    float factors[TOKENS];
#pragma unroll
    for (u32 token = 0; token < TOKENS; token++) {
        const float sum = warp_sum(lane < WARPS ? parts[token][lane] : 0.0f);
        factors[token] = 1.0f / sqrtf(sum / (float)p.rows + p.eps);
    }
    for (u32 row = threadIdx.x; row < p.rows; row += THREADS) {
        branch_outputs(p, first, count, row, added);
        T *out = (T *)p.out + (u64)first * p.out_stride + row;
#pragma unroll
        for (u32 token = 0; token < TOKENS; token++) {
            if (token >= count) break;
            T *to = out + (u64)token * p.out_stride;
            *to = round_to<T>(widen(*to) + p.numbers[row] * added[token] * factors[token]);
        }
    }
}

KERNEL __launch_bounds__(256) branch_add(const __grid_constant__ BranchAddParams p) {
    add_outputs<ACT>(p);
}
KERNEL __launch_bounds__(256) branch_add_f32(const __grid_constant__ BranchAddParams p) {
    add_outputs<float>(p);
}
KERNEL __launch_bounds__(256) branch_norm(const __grid_constant__ BranchAddParams p) {
    add_norms<ACT>(p);
}
KERNEL __launch_bounds__(256) branch_norm_f32(const __grid_constant__ BranchAddParams p) {
    add_norms<float>(p);
}
