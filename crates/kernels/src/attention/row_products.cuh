// Tensor-core products with keys and values as they are stored, widened on their way from shared
// memory. Include pages.cuh before it.
//
// A vector of 16 bytes holds 8 numbers of 16 bits, 16 of 8 bits, or 32 of 4 bits: then numbers
// 16 c .. 16 c + 15 in the upper halves of its bytes, and as many from half of the head on in the
// lower ones.

/// Quantised values of equal steps; see `Quantiser::Asymmetric8` and `4`.
struct steps8 {};
struct steps4 {};

/// `Query`: what tensor cores multiply. `STEPPED`: numbers are (quantised value - zero point) *
/// scale; the values are multiplied less `MIDDLE`, since sums of small numbers keep more digits.
template <typename Page> struct RowType {
    typedef Page Query;
    static const int BITS = 16, SCALE_BYTES = 0, MIDDLE = 0;
    static const bool STEPPED = false;
};
template <> struct RowType<e4m3> {
    typedef f16 Query;
    static const int BITS = 8, SCALE_BYTES = 4, MIDDLE = 0;
    static const bool STEPPED = false;
};
template <> struct RowType<e5m2> : RowType<e4m3> {};
template <> struct RowType<steps8> {
    typedef f16 Query;
    static const int BITS = 8, SCALE_BYTES = 8, MIDDLE = 128;
    static const bool STEPPED = true;
};
template <> struct RowType<steps4> {
    typedef f16 Query;
    static const int BITS = 4, SCALE_BYTES = 8, MIDDLE = 8;
    static const bool STEPPED = true;
};

// ---- Quantised values as f16, two at a time, less their middle. The number 1024 + n has the bits
// 0x6400 + n.

/// a * b + c, each two f16.
DEVICE u32 multiply_add_pairs(u32 a, u32 b, u32 c) {
    u32 y;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
    return y;
}
static const u32 LIFT = 0x64006400u;
static const u32 ONE = 0x3c003c00u, SIXTEENTH = 0x2c002c00u;

/// Bytes 0 and 2, or 1 and 3, less 128.
DEVICE u32 even_bytes(u32 x) {
    return multiply_add_pairs(pick(x, 0x00ff00ffu, LIFT), ONE, 0xe480e480u);
}
DEVICE u32 odd_bytes(u32 x) {
    return multiply_add_pairs(__byte_perm(x, LIFT >> 8, 0x4341), ONE, 0xe480e480u);
}
/// The lower or upper halves of bytes 0 and 2, less 8. Where they are, the upper ones count
/// sixteenfold.
DEVICE u32 lower_halves(u32 x) {
    return multiply_add_pairs(pick(x, 0x000f000fu, LIFT), ONE, 0xe408e408u);
}
DEVICE u32 upper_halves(u32 x) {
    return multiply_add_pairs(pick(x, 0x00f000f0u, LIFT), SIXTEENTH, 0xd480d480u);
}

/// Where the four numbers of a step of 16 are that a lane has of a head; t: lane % 4.
template <typename Page> DEVICE int place_in_step(int i, int t) {
    if (RowType<Page>::BITS == 16) return 2 * t + i % 2 + i / 2 * 8;
    return RowType<Page>::STEPPED ? 4 * t + i % 2 * 2 + i / 2 : 4 * t + i;
}
template <typename Page> DEVICE void load_step(float x[4], const float *from, int t) {
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = from[place_in_step<Page>(i, t)];
}

/// Loads of 32 bytes of each of a tile's keys.
template <typename Page, int STEPS> DEVICE constexpr int key_loads() {
    return STEPS * RowType<Page>::BITS / 16;
}

/// Calls take(step, a) for the steps of 16 numbers that one load of a tile of 16 keys has: a is the
/// left side of a product, with numbers 0 and 1 of the lane's two keys, then 2 and 3.
/// address(vector): of a lane's row, from this one on.
template <typename Page, int STEPS, typename Address, typename Take>
DEVICE void widen_keys(int load, Address address, Take take) {
    const int bits = RowType<Page>::BITS, step = 2 * load;
    u32 four[4];
    load_matrices(four, address(step));
    if constexpr (bits == 16) take(load, four);
#pragma unroll
    for (int i = 0; i < (bits == 16 ? 0 : 2); i++) {
        const u32 low = four[2 * i], high = four[2 * i + 1];
        if constexpr (bits == 4) {
            const u32 low_odd = low >> 8, high_odd = high >> 8;
            const u32 upper[4] = {upper_halves(low), upper_halves(high), upper_halves(low_odd),
                                  upper_halves(high_odd)};
            const u32 lower[4] = {lower_halves(low), lower_halves(high), lower_halves(low_odd),
                                  lower_halves(high_odd)};
            take(step + i, upper);
            take(step + i + STEPS / 2, lower);
        } else if constexpr (RowType<Page>::STEPPED) {
            const u32 a[4] = {even_bytes(low), even_bytes(high), odd_bytes(low), odd_bytes(high)};
            take(step + i, a);
        } else {
            const u32 a[4] = {widen_pair<Page>(low), widen_pair<Page>(high),
                              widen_pair<Page>(low >> 16), widen_pair<Page>(high >> 16)};
            take(step + i, a);
        }
    }
}

/// s += keys * queries; address as above.
template <typename Page, int STEPS, typename Address>
DEVICE void multiply_keys(float s[4], const u32 q[STEPS][2], Address address) {
    typedef typename RowType<Page>::Query Query;
#pragma unroll
    for (int load = 0; load < key_loads<Page, STEPS>(); load++)
        widen_keys<Page, STEPS>(load, address, [&](int step, const u32(&a)[4]) {
            mma<Query>(s, a, q[step]);
        });
}

/// sums += values * weights; address(row, vector): in a tile of 16 values.
template <typename Page, int STEPS, typename Address>
DEVICE void multiply_values(float sums[STEPS][4], const u32 weights[2], Address address, int lane) {
    typedef typename RowType<Page>::Query Query;
    const int bits = RowType<Page>::BITS;
#pragma unroll
    for (int step = 0; step < STEPS * bits / 8; step += 2) {
        u32 four[4];
        if constexpr (bits == 16) {
            const int row = lane % 8 + lane / 16 * 8;
            load_matrices_transposed(four, address(row, step + lane / 8 % 2));
            mma<Query>(sums[step / 2], four, weights);
        } else {
            load_matrices_transposed(four, address(lane % 16, step + lane / 16));
        }
#pragma unroll
        for (int i = 0; i < (bits == 16 ? 0 : 2); i++) {
            const u32 low = four[2 * i], high = four[2 * i + 1];
            if constexpr (bits == 4) {
                const u32 low_odd = low >> 8, high_odd = high >> 8;
                const u32 upper[4] = {upper_halves(low), upper_halves(low_odd),
                                      upper_halves(high), upper_halves(high_odd)};
                const u32 lower[4] = {lower_halves(low), lower_halves(low_odd),
                                      lower_halves(high), lower_halves(high_odd)};
                mma<Query>(sums[step + i], upper, weights);
                mma<Query>(sums[step + i + STEPS / 2], lower, weights);
            } else if constexpr (RowType<Page>::STEPPED) {
                const u32 a[4] = {even_bytes(low), odd_bytes(low), even_bytes(high),
                                  odd_bytes(high)};
                mma<Query>(sums[step + i], a, weights);
            } else {
                const u32 a[4] = {widen_pair<Page>(__byte_perm(low, 0, 0x4420)),
                                  widen_pair<Page>(__byte_perm(low, 0, 0x4431)),
                                  widen_pair<Page>(__byte_perm(high, 0, 0x4420)),
                                  widen_pair<Page>(__byte_perm(high, 0, 0x4431))};
                mma<Query>(sums[step + i], a, weights);
            }
        }
    }
}

/// Number of the head that `sums[step][2 * half ..]` is for.
template <typename Page> DEVICE int number_of(int step, int half, int lane) {
    return 16 * step + (RowType<Page>::BITS == 16 ? lane / 4 + 8 * half : lane / 4 * 2 + half);
}
