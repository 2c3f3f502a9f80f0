// What the kernels for chunks share: where a tile of queries begins and ends, the softmax in
// registers, and the way out. To be included after pages.cuh.
//
// Scores, weights and sums lie as the tensor cores give them: of a block of 16 rows a lane has rows
// g and g + 8 (g = lane / 4), and of every 8 columns the two from 2 (lane % 4) on, so that x[c] are
// (row g, two columns), (row g + 8, the same) of columns 8 c to 8 c + 7.

/// Rows of a tile of queries, which one block has.
static const int ROWS = 128;

/// Rows of one head that follow each other: `stride` numbers from one to the next.
template <typename T> struct HeadRows {
    T *first;
    u64 stride;
    i32 rows;
};

/// Of two rows; `largest` is in powers of two, as the softmax takes it, `total` the lane's part.
struct Softmax {
    float largest[2], total[2];
};

/// A row may have seen no key yet.
DEVICE float finite_largest(float largest) {
    return largest == MINUS_INFINITY ? 0.0f : largest;
}

/// Looks for larger scores in a tile; what earlier sums must be scaled by goes to `shrink`.
template <int COLUMNS>
DEVICE void raise_largest(Softmax &softmax, const float (&s)[COLUMNS][4], float scale,
                          float shrink[2]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float most = MINUS_INFINITY;
#pragma unroll
        for (int column = 0; column < COLUMNS; column++)
            most = fmaxf(most, fmaxf(s[column][2 * half], s[column][2 * half + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        most = fmaxf(softmax.largest[half], most * scale);
        shrink[half] = exp2_fast(softmax.largest[half] - finite_largest(most));
        softmax.largest[half] = most;
    }
}

/// Scores to weights, in place, once the largest ones are known.
template <int COLUMNS>
DEVICE void weigh(Softmax &softmax, float (&s)[COLUMNS][4], float scale, const float shrink[2]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float from = finite_largest(softmax.largest[half]);
        float total = 0.0f;
#pragma unroll
        for (int column = 0; column < COLUMNS; column++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                s[column][i] = exp2_fast(s[column][i] * scale - from);
                total += s[column][i];
            }
        softmax.total[half] = softmax.total[half] * shrink[half] + total;
    }
}

DEVICE void store_pair(float *out, float a, float b, i32) {
    *(float2 *)out = {a, b};
}
/// f16 or bf16.
DEVICE void store_pair(u16 *out, float a, float b, i32 type) {
    *(u32 *)out = type == ACT_F16 ? pack<f16>(a, b) : pack<bf16>(a, b);
}

/// The sum of a row's weights, which is the same in all its lanes.
DEVICE float whole_total(const Softmax &softmax, int half) {
    float total = softmax.total[half];
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    return total;
}

/// Writes the results of 16 rows, from `first` on; sums are in units of `unit`.
template <typename T, int COLUMNS>
DEVICE void write_rows(const HeadRows<T> &out, i32 type, const Softmax &softmax,
                       const float (&sums)[COLUMNS][4], float unit, i32 first, int lane) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float factor = unit / whole_total(softmax, half);
        const i32 row = first + half * 8 + lane / 4;
        if (row >= out.rows) continue;
        T *at = out.first + row * out.stride + lane % 4 * 2;
#pragma unroll
        for (int column = 0; column < COLUMNS; column++)
            store_pair(at + column * 8, sums[column][2 * half] * factor,
                       sums[column][2 * half + 1] * factor, type);
    }
}
