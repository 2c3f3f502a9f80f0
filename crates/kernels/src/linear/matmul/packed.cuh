// Quantised weights as the product kernels read them. packed_matrix.rs writes them, once at load.
//
// A matrix is cut into panels of 16 rows (the last filled up with zeros), a panel into blocks of 32
// columns. A block is a run of bytes, integers first and then scales; the blocks of a panel lie one
// after the other, the panels too. In a block each lane has its part of the tensor cores' `a` (see
// prelude.cuh) for two steps of 16 columns.
//
// The integers are exact in half-width numbers, which are made by setting bits (see `Small`). Sums
// over columns of one scale are scaled in f32.
//
// A `Block` is how a format is stored; the format itself multiplies by activations of type T.

static const int PANEL_ROWS = 16;
static const int BLOCK_COLUMNS = 32;

/// Where two neighbouring weights of a block lie: in which lane's part, for which step and register
/// of `a`. `side` tells the upper and the lower eight rows.
struct Place {
    int row, side, lane, step, reg;

    DEVICE Place(int row, int column)
        : row(row % 8), side(row / 8), lane(row % 8 * 4 + column % 8 / 2), step(column / 16),
          reg(row / 8 + column / 8 % 2 * 2) {}
};

/// An integer q of a few bits as a number of type T: `ZERO` (a pair of them here) with q in its
/// last bits is q + OFFSET units, and UNITS of those make one. In f16 they are subnormal numbers,
/// which tensor cores multiply like others, so no offset is needed.
template <typename T> struct Small;
template <> struct Small<bf16> {
    static const u32 ZERO = 0x43004300, ONES = 0x3f803f80;
    static constexpr float OFFSET = 128.0f, UNITS = 1.0f;
};
template <> struct Small<f16> {
    static const u32 ZERO = 0, ONES = 0x3c003c00;
    static constexpr float OFFSET = 0.0f, UNITS = 16777216.0f;
};
/// A pair of -q, less the offset: added to a `Small` number, it takes both off.
template <typename T> DEVICE constexpr u32 minus(u32 q) {
    return Small<T>::ZERO | 0x80008000 | q << 16 | q;
}

/// Four bits, and for each row an f16: weight = scale (q - 8).
struct S4Block {
    static const int SCALES_AT = 256, BYTES = 288;

    /// Eight weights of a row; `column` is a multiple of 8.
    static DEVICE void eight(const u8 *block, int row, int column, float weights[8]) {
        Place at(row, column);
        float scale = widen(((const f16 *)(block + SCALES_AT))[at.row * 2 + at.side]);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            u32 word = ((const u32 *)block)[(at.lane + i / 2) * 2 + at.step];
            u32 q = word >> (at.reg * 4 + i % 2 * 16) & 15;
            weights[i] = scale * ((float)q - 8.0f);
        }
    }
};

template <typename T> struct S4 : S4Block {
    /// Sums begin with what `a` is too much.
    static const bool NEEDS_SUMS = true;
    static constexpr float SUM_FACTOR = -(Small<T>::OFFSET + 8.0f) / Small<T>::UNITS;
    u32 a[2][4];
    float scale[2];

    DEVICE S4(const u8 *block, int lane) {
        uint2 q = ((const uint2 *)block)[lane];
        u32 pair = ((const u32 *)(block + SCALES_AT))[lane / 4];
        scale[0] = low_of<f16>(pair) * Small<T>::UNITS;
        scale[1] = high_of<f16>(pair) * Small<T>::UNITS;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[0][i] = pick(q.x >> (i * 4), 0x000f000f, Small<T>::ZERO);
            a[1][i] = pick(q.y >> (i * 4), 0x000f000f, Small<T>::ZERO);
        }
    }

    /// `x_sums`: of the 32 columns, as `c` has them, times the factor.
    DEVICE void multiply(float acc[4], const u32 b[4], const float x_sums[2]) const {
        float c[4];
        mma_onto<T>(c, a[0], b, x_sums[0], x_sums[1]);
        mma<T>(c, a[1], b + 2);
#pragma unroll
        for (int i = 0; i < 4; i++) acc[i] = fmaf(scale[i / 2], c[i], acc[i]);
    }
};

/// The same with the eight taken off first: more work for a block of weights, less for each token.
template <typename T> struct S4Centred : S4<T> {
    static const bool NEEDS_SUMS = false;

    DEVICE S4Centred(const u8 *block, int lane) : S4<T>(block, lane) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            u32 &pair = this->a[i / 4][i % 4];
            pair = add_pairs<T>(pair, minus<T>(8));
        }
    }

    DEVICE void multiply(float acc[4], const u32 b[4], const float *) const {
        const float none[2] = {0, 0};
        S4<T>::multiply(acc, b, none);
    }
};

/// Four bits, and for each row a pair of f16: weight = scale q + least.
struct Q4Block {
    static const int SCALES_AT = 256, BYTES = 320;

    /// Eight weights of a row; `column` is a multiple of 8.
    static DEVICE void eight(const u8 *block, int row, int column, float weights[8]) {
        Place at(row, column);
        u32 pair = ((const u32 *)(block + SCALES_AT))[at.row * 2 + at.side];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            u32 word = ((const u32 *)block)[(at.lane + i / 2) * 2 + at.step];
            u32 q = word >> (at.reg * 4 + i % 2 * 16) & 15;
            weights[i] = low_of<f16>(pair) * (float)q + high_of<f16>(pair);
        }
    }
};

template <typename T> struct Q4 : Q4Block {
    static const bool NEEDS_SUMS = true;
    static constexpr float SUM_FACTOR = 1.0f;
    u32 a[2][4];
    float scale[2], least[2];

    DEVICE Q4(const u8 *block, int lane) {
        uint2 q = ((const uint2 *)block)[lane];
        uint2 pairs = ((const uint2 *)(block + SCALES_AT))[lane / 4];
        scale[0] = low_of<f16>(pairs.x) * Small<T>::UNITS;
        scale[1] = low_of<f16>(pairs.y) * Small<T>::UNITS;
        least[0] = high_of<f16>(pairs.x) - offset_of(scale[0]);
        least[1] = high_of<f16>(pairs.y) - offset_of(scale[1]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[0][i] = pick(q.x >> (i * 4), 0x000f000f, Small<T>::ZERO);
            a[1][i] = pick(q.y >> (i * 4), 0x000f000f, Small<T>::ZERO);
        }
    }

    /// What `a` is too much, in weights.
    static DEVICE float offset_of(float scale) {
        return Small<T>::OFFSET == 0 ? 0 : Small<T>::OFFSET * scale;
    }

    /// `x_sums`: of the 32 columns, as `c` has them.
    DEVICE void multiply(float acc[4], const u32 b[4], const float x_sums[2]) const {
        float c[4] = {0, 0, 0, 0};
        mma<T>(c, a[0], b);
        mma<T>(c, a[1], b + 2);
#pragma unroll
        for (int i = 0; i < 4; i++)
            acc[i] = fmaf(scale[i / 2], c[i], fmaf(least[i / 2], x_sums[i % 2], acc[i]));
    }
};

/// Six bits, and for each row an f16 of each step: weight = scale (q - 32).
struct Q6Block {
    static const int HIGH_AT = 256, SCALES_AT = 384, BYTES = 448;

    static DEVICE void eight(const u8 *block, int row, int column, float weights[8]) {
        Place at(row, column);
        const f16 *scales = (const f16 *)(block + SCALES_AT);
        float scale = widen(scales[(at.row * 2 + at.side) * 2 + at.step]);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int part = at.lane + i / 2;
            u32 low = ((const u32 *)block)[part * 2 + at.step];
            u32 high = ((const u32 *)(block + HIGH_AT))[part];
            low = low >> (at.reg * 4 + i % 2 * 16) & 15;
            high = high >> (at.step * 8 + at.reg * 2 + i % 2 * 16) & 3;
            weights[i] = scale * ((float)(low | high << 4) - 32.0f);
        }
    }
};

template <typename T> struct Q6 : Q6Block {
    static const bool NEEDS_SUMS = false;
    static constexpr float SUM_FACTOR = 0.0f;
    u32 a[2][4];
    /// Of a step, for both rows.
    float scale[2][2];

    DEVICE Q6(const u8 *block, int lane) {
        uint2 low = ((const uint2 *)block)[lane];
        u32 high = ((const u32 *)(block + HIGH_AT))[lane];
        uint2 pairs = ((const uint2 *)(block + SCALES_AT))[lane / 4];
        scale[0][0] = low_of<f16>(pairs.x) * Small<T>::UNITS;
        scale[1][0] = high_of<f16>(pairs.x) * Small<T>::UNITS;
        scale[0][1] = low_of<f16>(pairs.y) * Small<T>::UNITS;
        scale[1][1] = high_of<f16>(pairs.y) * Small<T>::UNITS;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            u32 bits = pick((i < 4 ? low.x : low.y) >> (i % 4 * 4), 0x000f000f, Small<T>::ZERO);
            bits = pick(i < 2 ? high << (4 - 2 * i) : high >> (2 * i - 4), 0x00300030, bits);
            a[i / 4][i % 4] = add_pairs<T>(bits, minus<T>(32));
        }
    }

    DEVICE void multiply(float acc[4], const u32 b[4], const float *) const {
#pragma unroll
        for (int step = 0; step < 2; step++) {
            float c[4] = {0, 0, 0, 0};
            mma<T>(c, a[step], b + 2 * step);
#pragma unroll
            for (int i = 0; i < 4; i++) acc[i] = fmaf(scale[step][i / 2], c[i], acc[i]);
        }
    }
};

/// Signed bytes, and for each row an f16: weight = scale q. A word holds two registers, the first
/// in its even bytes.
struct Q8Block {
    static const int SCALES_AT = 512, BYTES = 544;

    static DEVICE void eight(const u8 *block, int row, int column, float weights[8]) {
        Place at(row, column);
        float scale = widen(((const f16 *)(block + SCALES_AT))[at.row * 2 + at.side]);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int word = (at.lane + i / 2) * 4 + at.step * 2 + at.reg / 2;
            int byte = word * 4 + at.reg % 2 + i % 2 * 2;
            weights[i] = scale * (float)(signed char)block[byte];
        }
    }
};

template <typename T> struct Q8 : Q8Block {
    static const bool NEEDS_SUMS = false;
    static constexpr float SUM_FACTOR = 0.0f;
    u32 a[2][4];
    float scale[2];

    DEVICE Q8(const u8 *block, int lane) {
        Vec16 q = ((const Vec16 *)block)[lane];
        u32 pair = ((const u32 *)(block + SCALES_AT))[lane / 4];
        scale[0] = low_of<f16>(pair) * Small<T>::UNITS;
        scale[1] = high_of<f16>(pair) * Small<T>::UNITS;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            u32 bits = q.word[i / 2] >> (i % 2 * 8);
            // The low seven bits, less 128 for a negative one: of bf16 that bit doubles the offset.
            a[i / 4][i % 4] = add_pairs<T>(pick(bits, 0x007f007f, Small<T>::ZERO),
                                           pick(bits, 0x00800080, minus<T>(0)));
        }
    }

    DEVICE void multiply(float acc[4], const u32 b[4], const float *) const {
        float c[4] = {0, 0, 0, 0};
        mma<T>(c, a[0], b);
        mma<T>(c, a[1], b + 2);
#pragma unroll
        for (int i = 0; i < 4; i++) acc[i] = fmaf(scale[i / 2], c[i], acc[i]);
    }
};

/// Sums of 32 columns of eight tokens, as `c` has them in every row.
template <typename T> DEVICE void sum_tokens(float sums[4], const u32 b[4]) {
    const u32 ones[4] = {Small<T>::ONES, Small<T>::ONES, Small<T>::ONES, Small<T>::ONES};
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
    mma<T>(sums, ones, b);
    mma<T>(sums, ones, b + 2);
}
