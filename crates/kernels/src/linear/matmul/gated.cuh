// A gated unit at the end of a product: gate rows and up rows take turns, eight of each.

enum { NO_GATE = 0, SILU = 1, GELU_TANH = 2 };

DEVICE float activate(float x, int gate) {
    float u = x;
    if (gate == GELU_TANH) u = 2 * 0.7978846f * (x + 0.044715f * x * x * x);
    return __fdividef(x, 1.0f + __expf(-u));
}
