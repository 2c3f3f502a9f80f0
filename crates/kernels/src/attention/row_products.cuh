// Tensor-core products with keys and values as they are stored, widened on their way from shared
// memory. Include pages.cuh before it.
//
// A vector of 16 bytes holds 8 numbers of 16 bits, 16 of 8 bits, or 32 of 4 bits. Of equal steps
// numbers 16 c .. 16 c + 15 are in the upper halves of its bytes, and as many from half of the head
// on in the lower ones; other neighbours share a byte, the first in its upper half.

/// Quantised values of equal steps; see `Quantiser::Asymmetric8` and `4`.
struct steps8 {};
struct steps4 {};
/// Those of bitsandbytes; see `Quantiser::Dynamic8` and `Float4`.
struct dynamic8 {};
struct float4s {};

/// `Query`: what tensor cores multiply. `STEPPED`: numbers are (quantised value - zero point) *
/// scale; the values are multiplied less `MIDDLE`, since sums of small numbers keep more digits.
/// `MULTIPLE`: tensor cores multiply so many times a number, before its scale.
template <typename Page> struct RowType {
    typedef Page Query;
    static const int BITS = 16, SCALE_BYTES = 0, MIDDLE = 0, MULTIPLE = 1;
    static const bool STEPPED = false;
};
template <> struct RowType<e4m3> {
    typedef f16 Query;
    static const int BITS = 8, SCALE_BYTES = 4, MIDDLE = 0, MULTIPLE = 1;
    static const bool STEPPED = false;
};
template <> struct RowType<dynamic8> : RowType<e4m3> {};
template <> struct RowType<float4s> {
    typedef f16 Query;
    static const int BITS = 4, SCALE_BYTES = 4, MIDDLE = 0, MULTIPLE = 12;
    static const bool STEPPED = false;
};
template <> struct RowType<e5m2> : RowType<e4m3> {};
template <> struct RowType<steps8> {
    typedef f16 Query;
    static const int BITS = 8, SCALE_BYTES = 8, MIDDLE = 128, MULTIPLE = 1;
    static const bool STEPPED = true;
};
template <> struct RowType<steps4> {
    typedef f16 Query;
    static const int BITS = 4, SCALE_BYTES = 8, MIDDLE = 8, MULTIPLE = 1;
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

// ---- The formats of bitsandbytes.

/// What the 256 values of `dynamic8` stand for, as f16. Each lane reads one of eight copies, whose
/// words lie in other banks.
static const int BOOK_COPIES = 8;
__shared__ u32 dynamic_book[128 * BOOK_COPIES];

/// By all threads of a block, before the first product. `values`: of the format, where there is a
/// book of them.
template <typename Page> DEVICE void prepare_rows(const float *values) {}
template <> DEVICE void prepare_rows<dynamic8>(const float *values) {
    for (int i = threadIdx.x; i < 128 * BOOK_COPIES; i += blockDim.x) {
        const int pair = i / BOOK_COPIES;
        dynamic_book[i] = pack<f16>(values[2 * pair], values[2 * pair + 1]);
    }
    __syncthreads();
}
template <> DEVICE u32 widen_pair<dynamic8>(u32 pair) {
    const u32 copy = threadIdx.x % BOOK_COPIES, low = pair & 255, high = pair >> 8 & 255;
    const u32 a = dynamic_book[low / 2 * BOOK_COPIES + copy];
    const u32 b = dynamic_book[high / 2 * BOOK_COPIES + copy];
    return __byte_perm(a, b, (low % 2 ? 0x32u : 0x10u) | (high % 2 ? 0x7600u : 0x5400u));
}

/// Twelve times each of the four numbers whose bits are the low 16 of `x`, as the upper bytes of
/// f16; signs are apart. The lower bytes are 0.
DEVICE u32 float4_sizes(u32 x) {
    return __byte_perm(0x4a482c00u, 0x42404644u, x & 0x7777u);
}
/// Two f16 of the bytes `first` and `second` of `sizes`, negative where these bits of `x` are set.
DEVICE u32 float4_pair(u32 sizes, u32 x, int first, int second, int first_sign, int second_sign) {
    const u32 pair = __byte_perm(sizes, 0, 0x0404u | first << 4 | second << 12);
    return pair | (x >> first_sign & 1) << 15 | (x >> second_sign & 1) << 31;
}
/// Numbers 0 and 1 (or 2 and 3) of the four in the low 16 bits of `x`.
DEVICE u32 float4_neighbours(u32 x, int half) {
    return float4_pair(float4_sizes(x), x, 2 * half + 1, 2 * half, 8 * half + 7, 8 * half + 3);
}
/// Number `i` of the four that the low and the high 16 bits of `x` each have.
DEVICE u32 float4_across(u32 x, int i) {
    const int nibble = i ^ 1;
    const u32 both = nibble | (nibble + 4) << 4;
    const u32 sizes = __byte_perm(float4_sizes(x), float4_sizes(x >> 16), both);
    return float4_pair(sizes, x, 0, 1, 4 * nibble + 3, 4 * nibble + 19);
}

/// Which of a head's numbers are the four of a step of 16 that a lane has; t: lane % 4.
template <typename Page> DEVICE int number_of_key(int step, int i, int t) {
    typedef RowType<Page> Type;
    if (Type::BITS == 16) return 16 * step + 2 * t + i % 2 + i / 2 * 8;
    if (Type::STEPPED) return 16 * step + 4 * t + i % 2 * 2 + i / 2;
    return Type::BITS == 8 ? 16 * step + 4 * t + i : 32 * (step / 2) + 8 * t + 4 * (step % 2) + i;
}
template <typename Page> DEVICE void load_step(float x[4], const float *head, int step, int t) {
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = head[number_of_key<Page>(step, i, t)];
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
        if constexpr (bits == 4 && !RowType<Page>::STEPPED) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const u32 a_low = low >> 16 * half, a_high = high >> 16 * half;
                const u32 a[4] = {float4_neighbours(a_low, 0), float4_neighbours(a_high, 0),
                                  float4_neighbours(a_low, 1), float4_neighbours(a_high, 1)};
                take(2 * (step + i) + half, a);
            }
        } else if constexpr (bits == 4) {
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
        for (int vector = 0; vector < (bits == 16 ? 0 : 2); vector++) {
            const u32 low = four[2 * vector], high = four[2 * vector + 1];
            if constexpr (bits == 4 && !RowType<Page>::STEPPED) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int i = 2 * half;
                    const u32 a[4] = {float4_across(low, i), float4_across(low, i + 1),
                                      float4_across(high, i), float4_across(high, i + 1)};
                    mma<Query>(sums[2 * (step + vector) + half], a, weights);
                }
            } else if constexpr (bits == 4) {
                const u32 low_odd = low >> 8, high_odd = high >> 8;
                const u32 upper[4] = {upper_halves(low), upper_halves(low_odd),
                                      upper_halves(high), upper_halves(high_odd)};
                const u32 lower[4] = {lower_halves(low), lower_halves(low_odd),
                                      lower_halves(high), lower_halves(high_odd)};
                mma<Query>(sums[step + vector], upper, weights);
                mma<Query>(sums[step + vector + STEPS / 2], lower, weights);
            } else if constexpr (RowType<Page>::STEPPED) {
                const u32 a[4] = {even_bytes(low), odd_bytes(low), even_bytes(high),
                                  odd_bytes(high)};
                mma<Query>(sums[step + vector], a, weights);
            } else {
                const u32 a[4] = {widen_pair<Page>(__byte_perm(low, 0, 0x4420)),
                                  widen_pair<Page>(__byte_perm(low, 0, 0x4431)),
                                  widen_pair<Page>(__byte_perm(high, 0, 0x4420)),
                                  widen_pair<Page>(__byte_perm(high, 0, 0x4431))};
                mma<Query>(sums[step + vector], a, weights);
            }
        }
    }
}

/// Number of the head that `sums[step][2 * half ..]` is for.
template <typename Page> DEVICE int number_of(int step, int half, int lane) {
    typedef RowType<Page> Type;
    if (Type::BITS == 4 && !Type::STEPPED)
        return 32 * (step / 2) + lane / 4 * 4 + 2 * (step % 2) + half;
    return 16 * step + (Type::BITS == 16 ? lane / 4 + 8 * half : lane / 4 * 2 + half);
}
