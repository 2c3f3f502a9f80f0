// What kernels of click-through models share: tensors whose type a launch names, and functions.

#include "prelude.cuh"

/// Rows of f32, or of the activations' type.
struct CtrRows {
    u8 *data;
    u32 stride; // in numbers
    u32 is_f32;

    DEVICE float get(u64 row, u32 column) const {
        const u64 at = row * stride + column;
        return is_f32 ? ((const float *)data)[at] : widen(((const ACT *)data)[at]);
    }
    DEVICE void put(u64 row, u32 column, float x) const {
        const u64 at = row * stride + column;
        if (is_f32)
            ((float *)data)[at] = x;
        else
            ((ACT *)data)[at] = round_to<ACT>(x);
    }
};

enum CtrActivationKind { CTR_PLAIN, CTR_RELU, CTR_SIGMOID, CTR_ELU };

DEVICE float ctr_sigmoid(float x) {
    return 1.0f / (1.0f + __expf(-x));
}

struct CtrActivation {
    u32 kind;
    float alpha;

    DEVICE float of(float x) const {
        // Written so that a NaN stays one.
        if (kind == CTR_RELU) return x < 0.0f ? 0.0f : x;
        if (kind == CTR_SIGMOID) return ctr_sigmoid(x);
        if (kind == CTR_ELU) return x < 0.0f ? alpha * (expf(x) - 1.0f) : x;
        return x;
    }
};

/// The number of a thread among all of the launch.
DEVICE u64 ctr_thread() {
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}
