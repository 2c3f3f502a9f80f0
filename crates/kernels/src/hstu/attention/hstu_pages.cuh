// Where HSTU's keys and values lie, for kernels that read and write them one by one. To be included
// after pages.cuh.

/// What pages hold, as in page_side.rs.
enum PageKind { PAGE_F32, PAGE_F16, PAGE_BF16, PAGE_E4M3, PAGE_E5M2, PAGE_INT8 };

struct int8 {
    signed char number;
};
template <> struct PageType<int8> {
    typedef f16 Query;
    static const bool SCALED = true;
    static constexpr float MOST = 127.0f;
};
DEVICE float widen(int8 x) {
    return x.number;
}
/// To the nearest, ties to even; a NaN becomes 0.
template <> DEVICE int8 narrow<int8>(float x) {
    return {(signed char)max(-127, min(127, __float2int_rn(x)))};
}

/// The keys or the values of a layer: in each page [heads, page_tokens, dim] numbers, and behind
/// them, for numbers that have them, scales f32 [heads, page_tokens].
struct PageSide {
    /// Of the first page.
    u8 *start;
    /// From one page to the next, and from a side's start to its scales.
    u64 page_bytes, scales;
    i32 page_tokens, dim;

    /// The row among those of a page.
    DEVICE u32 row_of(i32 offset, i32 head) const { return head * page_tokens + offset; }
    template <typename T> DEVICE T *row(i32 page, i32 offset, i32 head) const {
        return (T *)(start + page * page_bytes) + (u64)row_of(offset, head) * dim;
    }
    DEVICE u8 *scale_at(i32 page, i32 offset, i32 head) const {
        return start + page * page_bytes + scales + 4 * row_of(offset, head);
    }
};

/// A scale lies at any byte where rows are of odd lengths.
DEVICE float load_scale(const u8 *at) {
    if ((u64)at % 4 == 0) return *(const float *)at;
    return __uint_as_float(at[0] | at[1] << 8 | at[2] << 16 | (u32)at[3] << 24);
}
DEVICE void store_scale(u8 *at, float scale) {
    const u32 bits = __float_as_uint(scale);
#pragma unroll
    for (int i = 0; i < 4; i++) at[i] = bits >> 8 * i;
}
template <typename Page>
DEVICE float scale_of(const PageSide &side, i32 page, i32 offset, i32 head) {
    return PageType<Page>::SCALED ? load_scale(side.scale_at(page, offset, head)) : 1.0f;
}
