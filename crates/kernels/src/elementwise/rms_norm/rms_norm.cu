// ptx: f32 -DOUT=float
// ptx: bf16 -DOUT=bf16
// ptx: f16 -DOUT=f16
//
// weight * x / sqrt(mean(x²) + eps) for each row of the f32 stream; one block per row.
//
// Decode steps run this with few rows, between two products: what counts is its latency. So a
// row stays in registers from its one read to its write, the weight is fetched before the kernel
// before this one has ended, and the block meets at one barrier.
// The order of the sum depends on the row's length and alignment alone.

#include "prelude.cuh"

struct NormParams {
    float *x;
    const float *delta;
    const float *weight;
    OUT *out;
    u32 dim;
    u32 x_stride;
    u32 delta_stride;
    u32 out_stride;
    float eps;
};

/// Vectors of a row that a thread keeps (8192 numbers a block); it reads those beyond twice.
constexpr int KEPT = 2;

template <int WIDTH> struct Numbers {
    float item[WIDTH];
};

DEVICE Numbers<1> load_numbers(const float *from, Numbers<1> *) {
    return {{*from}};
}
DEVICE Numbers<4> load_numbers(const float *from, Numbers<4> *) {
    Vec16 x = load16(from);
    return {{__uint_as_float(x.word[0]), __uint_as_float(x.word[1]), __uint_as_float(x.word[2]),
             __uint_as_float(x.word[3])}};
}
template <int WIDTH> DEVICE Numbers<WIDTH> load_numbers(const float *from) {
    return load_numbers(from, (Numbers<WIDTH> *)nullptr);
}

template <typename T> DEVICE void store_numbers(T *to, const Numbers<1> &x) {
    *to = round_to<T>(x.item[0]);
}
DEVICE void store_numbers(float *to, const Numbers<4> &x) {
    store16(to, {__float_as_uint(x.item[0]), __float_as_uint(x.item[1]),
                 __float_as_uint(x.item[2]), __float_as_uint(x.item[3])});
}
template <typename T> DEVICE void store_numbers(T *to, const Numbers<4> &x) {
    u64 low = pack<T>(x.item[0], x.item[1]), high = pack<T>(x.item[2], x.item[3]);
    *(u64 *)to = low | high << 32;
}

template <int WIDTH> DEVICE float squares(const Numbers<WIDTH> &x) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) sum += x.item[i] * x.item[i];
    return sum;
}

template <int WIDTH>
DEVICE Numbers<WIDTH> scaled(const Numbers<WIDTH> &x, const Numbers<WIDTH> &weight, float factor) {
    Numbers<WIDTH> y;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) y.item[i] = weight.item[i] * (x.item[i] * factor);
    return y;
}

template <int WIDTH> DEVICE Numbers<WIDTH> plus(const Numbers<WIDTH> &x, const Numbers<WIDTH> &y) {
    Numbers<WIDTH> sum;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) sum.item[i] = x.item[i] + y.item[i];
    return sum;
}

DEVICE float block_sum(float x) {
    __shared__ float warps[32];
    u32 lane = threadIdx.x % 32;
    x = warp_sum(x);
    if (lane == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_sum(lane < blockDim.x / 32 ? warps[lane] : 0.0f);
}

/// Reads this thread's vectors; with `ADD` adds the delta to them, in memory too. All loads are
/// issued before the first store, which might otherwise hold them back.
template <int WIDTH, bool ADD>
DEVICE void read_kept(Numbers<WIDTH> row[KEPT], float *x, const float *delta, u32 dim) {
    const u32 start = threadIdx.x * WIDTH, step = blockDim.x * WIDTH;
    Numbers<WIDTH> more[KEPT];
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        u32 at = start + i * step;
        if (at < dim) row[i] = load_numbers<WIDTH>(x + at);
        if (ADD && at < dim) more[i] = load_numbers<WIDTH>(delta + at);
    }
    if (!ADD) return;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        u32 at = start + i * step;
        if (at < dim) {
            row[i] = plus(row[i], more[i]);
            store_numbers(x + at, row[i]);
        }
    }
}

template <int WIDTH, bool ADD> DEVICE void norm_row(const NormParams &p) {
    float *x = p.x + (u64)blockIdx.x * p.x_stride;
    const float *delta = p.delta + (u64)blockIdx.x * p.delta_stride;
    OUT *out = p.out + (u64)blockIdx.x * p.out_stride;
    const u32 start = threadIdx.x * WIDTH, step = blockDim.x * WIDTH;
    const float inverse_dim = 1.0f / p.dim;

    let_next_start();
    Numbers<WIDTH> weight[KEPT], row[KEPT];
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        u32 at = start + i * step;
        if (at < p.dim) weight[i] = load_numbers<WIDTH>(p.weight + at);
    }
    wait_for_inputs();
    read_kept<WIDTH, ADD>(row, x, delta, p.dim);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        if (start + i * step < p.dim) sum += squares(row[i]);
    }
#pragma unroll 1
    for (u32 at = start + KEPT * step; at < p.dim; at += step) {
        Numbers<WIDTH> numbers = load_numbers<WIDTH>(x + at);
        if (ADD) {
            numbers = plus(numbers, load_numbers<WIDTH>(delta + at));
            store_numbers(x + at, numbers);
        }
        sum += squares(numbers);
    }

    float factor = rsqrtf(block_sum(sum) * inverse_dim + p.eps);
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        u32 at = start + i * step;
        if (at < p.dim) store_numbers(out + at, scaled(row[i], weight[i], factor));
    }
#pragma unroll 1
    for (u32 at = start + KEPT * step; at < p.dim; at += step) {
        Numbers<WIDTH> numbers = load_numbers<WIDTH>(x + at);
        store_numbers(out + at, scaled(numbers, load_numbers<WIDTH>(p.weight + at), factor));
    }
}

template <bool ADD> DEVICE void norm_any_row(const NormParams &p) {
    u64 strides = (u64)(p.dim | p.x_stride | (ADD ? p.delta_stride : 0)) * sizeof(float);
    u64 inputs = (u64)p.x | (u64)p.weight | (ADD ? (u64)p.delta : 0);
    // Four numbers of the output may be 8 bytes.
    u64 output = ((u64)p.out | (u64)p.out_stride * sizeof(OUT)) * (sizeof(float) / sizeof(OUT));
    if (fits_16(strides | inputs | output)) {
        norm_row<4, ADD>(p);
    } else {
        norm_row<1, ADD>(p);
    }
}

KERNEL __launch_bounds__(1024) rms_norm(const __grid_constant__ NormParams p) {
    norm_any_row<false>(p);
}

/// x += delta, then out = norm of x.
KERNEL __launch_bounds__(1024) add_rms_norm(const __grid_constant__ NormParams p) {
    norm_any_row<true>(p);
}
