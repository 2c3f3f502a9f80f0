// ptx: f32
//
// Gradients of a root-mean-square norm, both added to what is there. With f the factor of a row,
//
//     d_x += f w d - x f³ / dim Σ w d x        d_weight += Σ_rows d x f
//
// A row belongs to a team: a warp where it is short, as heads are, else a block. A team takes one
// row after the other, keeps what it reads of one in registers until its two sums are known, and
// adds to the weight's gradient in its own part of shared memory, where each column is one
// thread's. A block adds that to memory once, at its end.
//
// Roofline: 16 bytes a number; bound by memory.

#include "prelude.cuh"

struct RmsNormGradientsParams {
    const float *x, *weight, *d_out;
    float *d_x;
    /// Null where the weight is not trained.
    float *d_weight;
    /// All heads of all tokens.
    u32 rows;
    u32 heads, dim;
    /// From one token to the next.
    u32 x_stride, d_out_stride, d_x_stride;
    float eps;
};

/// Four neighbouring numbers by one access, or one.
template <int WIDTH> DEVICE void load_numbers(float (&x)[WIDTH], const float *from) {
    if constexpr (WIDTH == 4) {
        const Vec16 numbers = load16(from);
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = __uint_as_float(numbers.word[i]);
    } else {
        x[0] = *from;
    }
}
template <int WIDTH> DEVICE void store_numbers(float *to, const float (&x)[WIDTH]) {
    if constexpr (WIDTH == 4) {
        Vec16 numbers;
#pragma unroll
        for (int i = 0; i < 4; i++) numbers.word[i] = __float_as_uint(x[i]);
        store16(to, numbers);
    } else {
        *to = x[0];
    }
}

template <bool IS_WARP> struct Team {
    static DEVICE u32 thread() { return IS_WARP ? threadIdx.x % 32 : threadIdx.x; }
    static DEVICE u32 threads() { return IS_WARP ? 32 : blockDim.x; }
    static DEVICE u32 number() { return IS_WARP ? threadIdx.x / 32 : 0; }
    static DEVICE u32 count() { return IS_WARP ? blockDim.x / 32 : 1; }
};

/// Of a row: its squares, and what its numbers add up to along the gradient.
struct RowSums {
    float squares, along;
};

/// The sums over a team, for each thread of it. A block has two places that take turns: nobody
/// writes into one before all have read it, because all meet at the other in between.
template <bool IS_WARP> DEVICE RowSums team_sums(RowSums sums, u32 turn) {
    sums = {warp_sum(sums.squares), warp_sum(sums.along)};
    if constexpr (!IS_WARP) {
        __shared__ RowSums places[2][32];
        RowSums *warps = places[turn % 2];
        const u32 lane = threadIdx.x % 32;
        if (lane == 0) warps[threadIdx.x / 32] = sums;
        __syncthreads();
        sums = {0.0f, 0.0f};
        if (lane < blockDim.x / 32) sums = warps[lane];
        sums = {warp_sum(sums.squares), warp_sum(sums.along)};
    }
    return sums;
}

template <int WIDTH> struct RowNumbers {
    float x[WIDTH], weight[WIDTH], d_out[WIDTH];

    DEVICE void add_to(RowSums &sums) const {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            sums.squares += x[i] * x[i];
            sums.along += x[i] * (weight[i] * d_out[i]);
        }
    }
    /// `back`: what goes back along x.
    DEVICE void add_gradient(float (&d_x)[WIDTH], float factor, float back) const {
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
            d_x[i] += weight[i] * d_out[i] * factor + x[i] * back;
    }
    /// Adds to the weight's gradient.
    DEVICE void add_products(float *to, float factor) const {
        float sums[WIDTH];
        load_numbers(sums, to);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) sums[i] += d_out[i] * (x[i] * factor);
        store_numbers(to, sums);
    }
};

/// One row; a thread keeps `KEPT` vectors of it and reads those beyond twice. `products`: the
/// team's part of the weight's gradient.
template <int WIDTH, int KEPT, bool IS_WARP>
DEVICE void add_row(const RmsNormGradientsParams &p, u32 row, u32 turn, float *products) {
    const u32 token = row / p.heads;
    const u64 inside = (u64)(row - token * p.heads) * p.dim;
    const float *x = p.x + (u64)token * p.x_stride + inside;
    const float *d_out = p.d_out + (u64)token * p.d_out_stride + inside;
    float *d_x = p.d_x + (u64)token * p.d_x_stride + inside;
    const u32 start = Team<IS_WARP>::thread() * WIDTH, step = Team<IS_WARP>::threads() * WIDTH;
    const bool has_products = p.d_weight != nullptr;

    RowNumbers<WIDTH> kept[KEPT];
    float before[KEPT][WIDTH];
    RowSums sums = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const u32 at = start + i * step;
        if (at >= p.dim) continue;
        load_numbers(kept[i].x, x + at);
        load_numbers(kept[i].d_out, d_out + at);
        load_numbers(before[i], d_x + at);
    }
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const u32 at = start + i * step;
        if (at >= p.dim) continue;
        load_numbers(kept[i].weight, p.weight + at);
        kept[i].add_to(sums);
    }
#pragma unroll 1
    for (u32 at = start + KEPT * step; at < p.dim; at += step) {
        RowNumbers<WIDTH> numbers;
        load_numbers(numbers.x, x + at);
        load_numbers(numbers.d_out, d_out + at);
        load_numbers(numbers.weight, p.weight + at);
        numbers.add_to(sums);
    }

    sums = team_sums<IS_WARP>(sums, turn);
    const float factor = 1.0f / sqrtf(sums.squares / p.dim + p.eps);
    const float back = -(factor * factor * factor) / p.dim * sums.along;
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const u32 at = start + i * step;
        if (at >= p.dim) continue;
        kept[i].add_gradient(before[i], factor, back);
        store_numbers(d_x + at, before[i]);
        if (has_products) kept[i].add_products(products + at, factor);
    }
#pragma unroll 1
    for (u32 at = start + KEPT * step; at < p.dim; at += step) {
        RowNumbers<WIDTH> numbers;
        float sum[WIDTH];
        load_numbers(numbers.x, x + at);
        load_numbers(numbers.d_out, d_out + at);
        load_numbers(numbers.weight, p.weight + at);
        load_numbers(sum, d_x + at);
        numbers.add_gradient(sum, factor, back);
        store_numbers(d_x + at, sum);
        if (has_products) numbers.add_products(products + at, factor);
    }
}

template <int WIDTH, int KEPT, bool IS_WARP>
DEVICE void add_rows(const RmsNormGradientsParams &p, float *shared) {
    float *products = shared + Team<IS_WARP>::number() * p.dim;
    if (p.d_weight) {
        const u32 step = Team<IS_WARP>::threads() * WIDTH;
        const float zeros[WIDTH] = {};
        for (u32 at = Team<IS_WARP>::thread() * WIDTH; at < p.dim; at += step)
            store_numbers(products + at, zeros);
    }
    const u32 teams = Team<IS_WARP>::count();
    u32 turn = 0;
    for (u64 row = (u64)blockIdx.x * teams + Team<IS_WARP>::number(); row < p.rows;
         row += (u64)gridDim.x * teams) {
        add_row<WIDTH, KEPT, IS_WARP>(p, (u32)row, turn++, products);
    }
    if (!p.d_weight) return;
    __syncthreads();
    for (u32 column = threadIdx.x; column < p.dim; column += blockDim.x) {
        float sum = 0.0f;
        for (u32 team = 0; team < teams; team++) sum += shared[team * p.dim + column];
        atomicAdd(p.d_weight + column, sum);
    }
}

template <int KEPT, bool IS_WARP> DEVICE void add_any_rows(const RmsNormGradientsParams &p) {
    extern __shared__ Vec16 shared[];
    let_next_start();
    wait_for_inputs();
    const u64 addresses = (u64)p.x | (u64)p.weight | (u64)p.d_out | (u64)p.d_x;
    const u64 strides = (u64)(p.dim | p.x_stride | p.d_out_stride | p.d_x_stride) * sizeof(float);
    if (fits_16(addresses | strides)) add_rows<4, KEPT, IS_WARP>(p, (float *)shared);
    else add_rows<1, KEPT, IS_WARP>(p, (float *)shared);
}

/// A warp for each row, which keeps rows of up to 128 numbers.
KERNEL __launch_bounds__(256, 4)
rms_norm_gradients_heads(const __grid_constant__ RmsNormGradientsParams p) {
    add_any_rows<1, true>(p);
}

/// The same with rows of up to 512 numbers.
KERNEL __launch_bounds__(256, 2)
rms_norm_gradients_short(const __grid_constant__ RmsNormGradientsParams p) {
    add_any_rows<4, true>(p);
}

/// A block for each row, which keeps rows of up to 8192 numbers.
KERNEL __launch_bounds__(1024)
rms_norm_gradients_long(const __grid_constant__ RmsNormGradientsParams p) {
    add_any_rows<2, false>(p);
}
