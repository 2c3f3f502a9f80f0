// ptx: f32
//
// What a block of logits tells of each row, and what becomes of it: see block.rs. A block of
// threads has a row, one way over it for what is found and one for the gradient.
//
// Roofline: 4 bytes a logit to note it, 8 to make it its gradient; bound by memory.

#include "prelude.cuh"

/// What is known of a row after some blocks: its largest logit, the sum of the exponentials of all
/// relative to it, and the logit of its target.
struct Found {
    float largest, total, target;
};

struct FoundParams {
    Found *found;         // `[rows]`
    const i32 *targets;   // `[rows]`, negative for none
    float *losses;        // `[rows]`
    u32 rows;
};

struct LogitsParams {
    float *logits;        // `[rows, width]`
    const i32 *targets;   // `[rows]`
    Found *found;         // `[rows]`
    const float *factors; // `[rows]`
    u32 width, stride;
    /// Of the block's first column.
    i32 first_id;
};

static const float LEAST = -3.402823466e38f;

KERNEL __launch_bounds__(128) clear_found(const __grid_constant__ FoundParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < p.rows) p.found[row] = {LEAST, 0.0f, 0.0f};
}

KERNEL __launch_bounds__(128) losses(const __grid_constant__ FoundParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= p.rows) return;
    const Found found = p.found[row];
    const float loss = logf(found.total) + (found.largest - found.target);
    p.losses[row] = p.targets[row] < 0 ? 0.0f : loss;
}

// ---- Notes.

/// The largest of some logits, and the sum of exponentials relative to it.
struct Seen {
    float largest, total;
};

DEVICE Seen joined(const Seen &a, const Seen &b) {
    const float most = fmaxf(a.largest, b.largest);
    return {most, a.total * expf(a.largest - most) + b.total * expf(b.largest - most)};
}

/// What all lanes have seen, in every lane.
DEVICE Seen joined_lanes(Seen seen) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const Seen other = {__shfl_xor_sync(~0u, seen.largest, step),
                            __shfl_xor_sync(~0u, seen.total, step)};
        seen = joined(seen, other);
    }
    return seen;
}

template <int WIDTH> DEVICE void load_logits(float (&x)[WIDTH], const float *from) {
    if constexpr (WIDTH == 4) {
        const Vec16 numbers = load16(from);
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = __uint_as_float(numbers.word[i]);
    } else {
        x[0] = *from;
    }
}

template <int WIDTH> DEVICE Seen seen_by_thread(const float *logits, u32 width) {
    Seen seen = {LEAST, 0.0f};
    for (u32 at = threadIdx.x * WIDTH; at < width; at += blockDim.x * WIDTH) {
        float x[WIDTH];
        load_logits(x, logits + at);
        float most = seen.largest;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) most = fmaxf(most, x[i]);
        // A factor of one but where there is a new largest.
        float total = most > seen.largest ? seen.total * expf(seen.largest - most) : seen.total;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) total += expf(x[i] - most);
        seen = {most, total};
    }
    return seen;
}

/// Whether whole vectors of four make up the row.
DEVICE bool in_fours(const LogitsParams &p) {
    return fits_16((u64)p.logits | (u64)(p.width | p.stride) * sizeof(float));
}

/// Takes a block into what was found; rows without a target are passed over. Grid: rows.
KERNEL __launch_bounds__(512) note_block(const __grid_constant__ LogitsParams p) {
    __shared__ Seen warps[16];
    let_next_start();
    wait_for_inputs();
    const i32 target = p.targets[blockIdx.x];
    if (target < 0) return;
    const float *logits = p.logits + (u64)blockIdx.x * p.stride;
    Seen seen = in_fours(p) ? seen_by_thread<4>(logits, p.width)
                            : seen_by_thread<1>(logits, p.width);
    seen = joined_lanes(seen);
    const u32 lane = threadIdx.x % 32;
    if (lane == 0) warps[threadIdx.x / 32] = seen;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    seen = {LEAST, 0.0f};
    if (lane < blockDim.x / 32) seen = warps[lane];
    seen = joined_lanes(seen);
    if (lane > 0) return;
    Found found = p.found[blockIdx.x];
    seen = joined({found.largest, found.total}, seen);
    const u32 column = (u32)(target - p.first_id);
    if (p.first_id <= target && column < p.width) found.target = logits[column];
    p.found[blockIdx.x] = {seen.largest, seen.total, found.target};
}

// ---- Gradients.

template <int WIDTH> DEVICE void store_logits(float *to, const float (&x)[WIDTH]) {
    if constexpr (WIDTH == 4) {
        Vec16 numbers;
#pragma unroll
        for (int i = 0; i < 4; i++) numbers.word[i] = __float_as_uint(x[i]);
        store16(to, numbers);
    } else {
        *to = x[0];
    }
}

template <int WIDTH> DEVICE void row_to_gradient(const LogitsParams &p) {
    float *logits = p.logits + (u64)blockIdx.x * p.stride;
    const i32 target = p.targets[blockIdx.x];
    const Found found = p.found[blockIdx.x];
    const float factor = p.factors[blockIdx.x], share = factor / found.total;
    for (u32 at = threadIdx.x * WIDTH; at < p.width; at += blockDim.x * WIDTH) {
        float x[WIDTH] = {};
        if (target >= 0) {
            load_logits(x, logits + at);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                x[i] = share * expf(x[i] - found.largest);
                if (p.first_id + (i32)at + i == target) x[i] -= factor;
            }
        }
        store_logits(logits + at, x);
    }
}

/// Makes a block of logits their gradient, in place; zeros in rows without a target. Grid: rows.
KERNEL __launch_bounds__(512) to_gradient(const __grid_constant__ LogitsParams p) {
    let_next_start();
    wait_for_inputs();
    if (in_fours(p)) row_to_gradient<4>(p);
    else row_to_gradient<1>(p);
}
