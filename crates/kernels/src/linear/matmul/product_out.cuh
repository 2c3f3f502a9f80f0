// What becomes of a sum when a product writes it. Twin of `ProductSize::out` in product.rs.

enum ProductOut { OUT_IS_F32 = 1, OUT_IS_RELU = 2, OUT_IS_SIGMOID = 4 };

/// Written so that a NaN stays one.
DEVICE float finished(u32 out, float sum) {
    if (out & OUT_IS_SIGMOID) return 1.0f / (1.0f + __expf(-sum));
    return out & OUT_IS_RELU && sum < 0.0f ? 0.0f : sum;
}
