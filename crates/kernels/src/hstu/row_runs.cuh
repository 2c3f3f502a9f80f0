// Rows of numbers in runs of neighbours: what the norms of HSTU models share. A block has one row.
// To be included after prelude.cuh.
//
// All of them are bound by memory. A row stays in registers from its one read to its write, unless
// it is longer than 8192 numbers; the order of sums depends on its length and alignment alone.

/// Runs of a row that a thread keeps; it reads those beyond again. With two, short rows have
/// registers for runs that they lack (H200, gated_norm of 1024 numbers: 1.6 against 2.3 TB/s).
static const int KEPT = 1;

/// Eight numbers by accesses of 16 bytes, or one.
template <int WIDTH, typename T> DEVICE void load_run(float (&x)[WIDTH], const T *from) {
    if constexpr (WIDTH == 8) load8(x, from);
    else x[0] = widen(*from);
}
template <int WIDTH, typename T> DEVICE void store_run(T *to, const float (&x)[WIDTH]) {
    if constexpr (WIDTH == 8) store8(to, x);
    else *to = round_to<T>(x[0]);
}

template <int WIDTH> DEVICE float sum_of(const float (&x)[WIDTH]) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) sum += x[i];
    return sum;
}
/// Of the squared distances from `centre`.
template <int WIDTH> DEVICE float squares_of(const float (&x)[WIDTH], float centre) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) sum += (x[i] - centre) * (x[i] - centre);
    return sum;
}

/// The sum over a block, for every thread of it. Each sum of a kernel has its own number.
template <int NUMBER> DEVICE float block_sum(float x) {
    __shared__ float warps[32];
    const u32 lane = threadIdx.x % 32;
    x = warp_sum(x);
    if (lane == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_sum(lane < blockDim.x / 32 ? warps[lane] : 0.0f);
}

/// A thread's runs of a row.
template <int WIDTH, typename T> struct RowRuns {
    const T *row;
    u32 length;
    float kept[KEPT][WIDTH];

    DEVICE u32 start() const { return threadIdx.x * WIDTH; }
    DEVICE u32 step() const { return blockDim.x * WIDTH; }

    /// Calls `f(at, run)` for each run that the thread has, in ascending order.
    template <typename F> DEVICE void for_each(F f) {
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            const u32 at = start() + i * step();
            if (at < length) f(at, kept[i]);
        }
#pragma unroll 1
        for (u32 at = start() + KEPT * step(); at < length; at += step()) {
            float run[WIDTH];
            load_run(run, row + at);
            f(at, run);
        }
    }
    /// As `for_each`, with the runs at the same places of another row.
    template <typename Other, typename F>
    DEVICE void for_each_with(RowRuns<WIDTH, Other> &other, F f) {
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            const u32 at = start() + i * step();
            if (at < length) f(at, kept[i], other.kept[i]);
        }
#pragma unroll 1
        for (u32 at = start() + KEPT * step(); at < length; at += step()) {
            float run[WIDTH], others[WIDTH];
            load_run(run, row + at);
            load_run(others, other.row + at);
            f(at, run, others);
        }
    }
    DEVICE void load_kept() {
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            const u32 at = start() + i * step();
            if (at < length) load_run(kept[i], row + at);
        }
    }
};

struct RowStatistics {
    /// `factor`: one over the standard deviation.
    float mean, factor;
};

template <int WIDTH, typename T>
DEVICE RowStatistics statistics(RowRuns<WIDTH, T> &runs, float eps) {
    float sum = 0.0f, squares = 0.0f;
    runs.for_each([&](u32, const float(&x)[WIDTH]) { sum += sum_of(x); });
    const float mean = block_sum<0>(sum) / runs.length;
    runs.for_each([&](u32, const float(&x)[WIDTH]) { squares += squares_of(x, mean); });
    return {mean, 1.0f / sqrtf(block_sum<1>(squares) / runs.length + eps)};
}
