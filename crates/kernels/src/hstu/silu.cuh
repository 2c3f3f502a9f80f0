// x * sigmoid(x), as every kernel of HSTU models computes it but the one on Hopper's tensor cores.
// To be included after prelude.cuh.

/// As exact as f32 allows, for f32; else to a few units of its last digit.
template <typename T> DEVICE float silu(float x) {
    return __fdividef(x, 1.0f + __expf(-x));
}
template <> DEVICE float silu<float>(float x) {
    return x / (1.0f + expf(-x));
}
