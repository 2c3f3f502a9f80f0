// What the kernels around attention share: the numbers that pages hold, and where a token lies.
//
// A page is [layers][keys: kv_heads, page_tokens, head_dim][values: the same]. Behind the numbers
// of each side of an fp8 layer lie its scales, f32 [kv_heads, page_tokens], filled up to 16 bytes.

#include "prelude.cuh"

struct e4m3 {
    u8 bits;
};
struct e5m2 {
    u8 bits;
};

/// `Query`: what queries over such pages are stored as, and what tensor cores multiply.
/// `SCALED`: every row has a scale, which makes its largest number `MOST`.
template <typename Page> struct PageType {
    typedef Page Query;
    static const bool SCALED = false;
    static constexpr float MOST = 1.0f;
};
template <> struct PageType<e4m3> {
    typedef f16 Query;
    static const bool SCALED = true;
    static constexpr float MOST = 448.0f;
};
template <> struct PageType<e5m2> {
    typedef f16 Query;
    static const bool SCALED = true;
    static constexpr float MOST = 57344.0f;
};

// ---- fp8. Hopper converts in one instruction; before it the same rounding is spelled out.

/// The product of two pairs of f16.
DEVICE u32 multiply_pairs(u32 a, u32 b) {
    u32 y;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

/// Two fp8 numbers (the low 16 bits) as two f16, which hold every fp8 number exactly.
/// Numbers of other pages are multiplied as they are.
template <typename Page> DEVICE u32 widen_pair(u32 pair) {
    return pair;
}
template <> DEVICE u32 widen_pair<e5m2>(u32 pair) {
    return __byte_perm(pair, 0, 0x1404);
}
template <> DEVICE u32 widen_pair<e4m3>(u32 pair) {
#if __CUDA_ARCH__ >= 890
    u32 y;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"((u16)pair));
    return y;
#else
    // Sign and digits moved where f16 has them are 2^-8 of the number, subnormal ones included. A
    // NaN becomes 480: nothing that is stored holds one unless a NaN was to be stored.
    u32 high = __byte_perm(pair, 0, 0x1404);
    u32 moved = (high & 0x80008000u) | ((high & 0x7f007f00u) >> 1);
    return multiply_pairs(moved, 0x5c005c00u);
#endif
}
DEVICE float widen(e4m3 x) {
    return low_of<f16>(widen_pair<e4m3>(x.bits));
}
DEVICE float widen(e5m2 x) {
    return low_of<f16>(widen_pair<e5m2>(x.bits));
}

/// Nearest fp8 number, ties to even; what is too large becomes the largest one.
template <int DIGITS, int BIAS, u32 LARGEST> DEVICE u8 round_to_fp8(float x) {
    u32 bits = __float_as_uint(x);
    u32 sign = bits >> 31 << 7;
    u32 size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return 0x7f;
    if (size < (u32)(128 - BIAS) << 23) {
        float steps = __uint_as_float(size) * (float)(1 << (BIAS - 1 + DIGITS));
        return (u8)(sign | (u32)__float2int_rn(steps));
    }
    const int dropped = 23 - DIGITS;
    u32 rounded = (size + ((1u << (dropped - 1)) - 1) + (size >> dropped & 1)) >> dropped;
    u32 rebiased = rounded - ((127 - BIAS) << DIGITS);
    return (u8)(sign | (rebiased < LARGEST ? rebiased : LARGEST));
}
template <> DEVICE e4m3 narrow<e4m3>(float x) {
    e4m3 y;
#if __CUDA_ARCH__ >= 890
    u16 pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    y.bits = (u8)pair;
#else
    y.bits = round_to_fp8<3, 7, 0x7e>(x);
#endif
    return y;
}
template <> DEVICE e5m2 narrow<e5m2>(float x) {
    e5m2 y;
#if __CUDA_ARCH__ >= 890
    u16 pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    y.bits = (u8)pair;
#else
    y.bits = round_to_fp8<2, 15, 0x7b>(x);
#endif
    return y;
}

/// The scale of a row whose largest size is `most`.
template <typename Page> DEVICE float scale_of_row(float most) {
    float scale = most / PageType<Page>::MOST;
    return scale > 0.0f ? scale : 1.0f;
}

// ---- Where tokens lie.

/// The pages of one group of layers, at one of its layers.
struct LayerPages {
    u8 *pages;
    /// From one page to the next, and from a page's start to the layer's keys and values.
    u64 page_bytes, key_offset, value_offset;
    i32 page_tokens, kv_heads;
};

/// Bytes from the first page to the page's start.
DEVICE u64 page_start(const LayerPages &layer, i32 page) {
    return (u64)(u32)page * layer.page_bytes;
}
/// Index of a token's row among those of one side of a page.
DEVICE u32 row_in_page(const LayerPages &layer, i32 kv_head, i32 offset) {
    return kv_head * layer.page_tokens + offset;
}
/// Bytes from the start of a side to its scales.
DEVICE u64 scales_offset(const LayerPages &layer, i32 row_bytes) {
    return (u64)(u32)(layer.kv_heads * layer.page_tokens) * row_bytes;
}

/// A row of a step: its sequence (-1: none), that sequence's tokens before the step, its position.
struct RowLocation {
    i32 seq, past, position;
};

/// Without `row_seqs` row i is the next token of sequence i, and -1 past tokens mean none.
DEVICE RowLocation locate_row(i32 row, const i32 *row_seqs, const i32 *live_starts,
                             const i32 *past_tokens) {
    const i32 seq = row_seqs ? row_seqs[row] : row;
    const i32 past = seq < 0 ? -1 : past_tokens[seq];
    if (past < 0) return {-1, -1, -1};
    return {seq, past, row_seqs ? past + row - live_starts[seq] : past};
}

// ---- Small things of use to all of them.

/// Copies 4 or 8 bytes to shared memory in the background; zeros when `is_there` is false.
template <int BYTES> DEVICE void copy_async_small(u32 shared, const void *global, bool is_there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global),
                 "n"(BYTES), "r"(is_there ? BYTES : 0)
                 : "memory");
}

/// 2^x, to 2 units of the last digit; 0 for minus infinity.
DEVICE float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#define MINUS_INFINITY __int_as_float(0xff800000)

/// An 8x8 matrix of half-width numbers, each lane with a pair, transposed.
DEVICE u32 transposed(u32 pair) {
    u32 y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(pair));
    return y;
}

/// What another multiprocessor has written in this launch.
DEVICE void load_fresh_four(float x[4], const float *address) {
    asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "l"(address)
                 : "memory");
}

/// The largest power of two that is not above `x`, and at least the least normal number.
DEVICE float power_of_two_below(float x) {
    u32 exponent = __float_as_uint(x) & 0x7f800000u;
    return __uint_as_float(exponent < 0x00800000u ? 0x00800000u : exponent);
}
/// One over a power of two.
DEVICE float inverse_power(float power) {
    return __uint_as_float(0x7f000000u - __float_as_uint(power));
}

/// Four neighbouring numbers, rounded to T (f16 saturates).
template <typename T> DEVICE void store_four(void *address, const float x[4]) {
    struct alignas(4 * sizeof(T)) Four {
        T number[4];
    } four;
#pragma unroll
    for (int i = 0; i < 4; i++) four.number[i] = narrow<T>(x[i]);
    *(Four *)address = four;
}
template <typename T> DEVICE void load_four(float x[4], const void *address) {
    struct alignas(4 * sizeof(T)) Four {
        T number[4];
    } four = *(const Four *)address;
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = widen(four.number[i]);
}
