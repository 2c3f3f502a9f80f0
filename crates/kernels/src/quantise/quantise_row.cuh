// How a row of keys or values becomes codes, by one warp: the quantisers of quantise/, operation by
// operation, so that what is stored means the same everywhere. To be included after slots.cuh and
// heads.cuh.
//
// A lane has numbers 4 lane .. 4 lane + 3, and 128 further on the same again.

/// What a row is quantised with: see `quantise`.
struct RowScale {
    float scale, per_step;
    i32 zero;
};

template <int GROUPS, typename Join>
DEVICE float over_row(const Row<GROUPS> &row, i32 dim, float nothing, int lane, Join join) {
    float x = nothing;
#pragma unroll
    for (int i = 0; i < 4 * GROUPS; i++)
        if (i / 4 * 128 + 4 * lane + i % 4 < dim) x = join(x, row.x[i / 4][i % 4]);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x = join(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

DEVICE RowScale asymmetric_scale(float least, float most, float steps) {
    const float size = fmaxf(fabsf(least), fabsf(most));
    RowScale made;
    // Neither vanishing, nor so small that the zero point leaves 31 bits: see asymmetric.rs.
    made.scale = fmaxf(fmaxf(__fdiv_rn(most - least, steps), 0x1p-23f), size * 0x1p-30f);
    made.zero = -__float2int_rn(__fdiv_rn(least, made.scale));
    made.per_step = __fdiv_rn(1.0f, made.scale);
    return made;
}

template <int GROUPS>
DEVICE RowScale scale_for(i32 format, const Row<GROUPS> &row, i32 dim, int lane) {
    if (has_zero_point(format)) {
        const auto lesser = [](float a, float b) { return fminf(a, b); };
        const auto larger = [](float a, float b) { return fmaxf(a, b); };
        const float least = over_row(row, dim, -MINUS_INFINITY, lane, lesser);
        const float most = over_row(row, dim, MINUS_INFINITY, lane, larger);
        return asymmetric_scale(least, most, format == ASYMMETRIC_8 ? 255.0f : 15.0f);
    }
    const auto larger_size = [](float a, float b) { return fmaxf(a, fabsf(b)); };
    const float most = over_row(row, dim, 0.0f, lane, larger_size);
    return {format == FP8_ROWS ? scale_of_row<e4m3>(most) : most, 0.0f, 0};
}

/// The entry whose value is nearest; halfway between two the lower.
DEVICE u32 nearest(const Book &book, float x) {
    u32 index = 0;
#pragma unroll
    for (u32 step = 128; step > 0; step /= 2)
        if (book.borders[index + step - 1] < x) index += step;
    return book.ascending[index];
}

DEVICE u32 quantise(i32 format, const Book *books, const RowScale &made, float x) {
    if (has_zero_point(format)) {
        const long long step = (long long)__float2int_rn(__fmul_rn(x, made.per_step)) + made.zero;
        return (u32)max(0ll, min(step, format == ASYMMETRIC_8 ? 255ll : 15ll));
    }
    if (format == FP8_ROWS) return narrow<e4m3>(__fdiv_rn(x, made.scale)).bits;
    const float ratio = made.scale > 0.0f ? __fdiv_rn(x, made.scale) : 0.0f;
    return nearest(books[format - DYNAMIC_8], ratio);
}

/// Makes of a row what it reads as once it is stored in a quantised format.
template <int GROUPS>
DEVICE void round_row(i32 format, const Book *books, i32 dim, Row<GROUPS> &row, int lane) {
    const RowScale made = scale_for(format, row, dim, lane);
#pragma unroll
    for (int i = 0; i < 4 * GROUPS; i++) {
        if (i / 4 * 128 + 4 * lane + i % 4 >= dim) continue;
        float &x = row.x[i / 4][i % 4];
        const u32 quant = quantise(format, books, made, x);
        x = dequantised(format, books, quant, made.scale, made.zero);
    }
}
