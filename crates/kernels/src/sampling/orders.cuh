// Two orders in which tokens are counted, best first: by score, and by weight.
//
// In each a token has a key, which rises as the score falls, and an amount. A key's bits are
// looked at in three groups: two of `STEP` bits below, and the rest above them, which takes less
// than 2048 values.

constexpr u32 NONE = ~0u;
/// Scores are at most 0. Below -28.5 a token's mass is 0: it is never drawn, and tells no filter
/// anything.
constexpr float LEAST_SCORE = -28.5f;
constexpr float MASS_OF_ONE = 1099511627776.0f;

/// e^x for x ≤ 0, operation by operation as the host's `exp`, so that weights are equal in bits.
DEVICE float weight_of(float x) {
    const float rounder = 12582912.0f;
    float rounded = __fadd_rn(__fmul_rn(x, 1.44269504f), rounder);
    float power = __fsub_rn(rounded, rounder);
    float rest = __fsub_rn(x, __fmul_rn(power, 0.6933594f));
    rest = __fsub_rn(rest, __fmul_rn(power, -2.1219444e-4f));
    const float coefficients[] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f,
                                  0.5f, 1.0f, 1.0f};
    float series = 1.0f / 5040.0f;
#pragma unroll
    for (int i = 0; i < 7; ++i) series = __fadd_rn(__fmul_rn(series, rest), coefficients[i]);
    return __fmul_rn(series, __uint_as_float((__float_as_uint(rounded) + 127) << 23));
}

/// By score; every token counts 1.
struct ByScore {
    static constexpr bool IS_MASS = false;
    static constexpr u32 STEP = 10;

    DEVICE static u32 key(float score) {
        return __float_as_uint(score) & 0x7fffffffu;
    }
    DEVICE static float score(u32 key) {
        return -__uint_as_float(key);
    }
    DEVICE static u64 amount(u32) {
        return 1;
    }
};

/// By weight, as the host ranks for top-p: scores may differ where weights do not.
struct ByWeight {
    static constexpr bool IS_MASS = true;
    static constexpr u32 STEP = 9;

    DEVICE static u32 key(float score) {
        float weight = weight_of(score);
        // Whatever rounds to no mass is out.
        return weight * MASS_OF_ONE > 0.5f ? ONE - __float_as_uint(weight) : NONE;
    }
    DEVICE static float score(u32 key) {
        return logf(__uint_as_float(ONE - key));
    }
    DEVICE static u64 amount(u32 key) {
        return __float2ull_rn(__uint_as_float(ONE - key) * MASS_OF_ONE);
    }

    static constexpr u32 ONE = 0x3f800000u;
};
