// What becomes of a sum when a product writes it. Twin of `ProductSize::out` in product.rs.

enum ProductOut { OUT_IS_F32 = 1, OUT_IS_RELU = 2 };

/// Written so that a NaN stays one.
DEVICE float finished(u32 out, float sum) {
    return out & OUT_IS_RELU && sum < 0.0f ? 0.0f : sum;
}
