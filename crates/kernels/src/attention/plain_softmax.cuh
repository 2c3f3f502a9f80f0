// What plain.cu and slot_plain.cu share: the softmax of a warp that has a head's numbers across its
// lanes, and the way out, in f32 with the exponential to its last digits. To be included after
// softmax_stats.cuh.
//
// A block has one row and one head; each of its warps takes every eighth group of four keys, with a
// softmax of its own. Lane i has numbers i, i + 32 and so on of the head.

static const int WARPS = 8;
/// A kernel that runs `body` in blocks of so many warps.
#define PLAIN_KERNEL(name, Params, body)                                                          \
    KERNEL __launch_bounds__(WARPS * 32) name(const __grid_constant__ Params p) { body(p); }
/// Keys that a warp takes at once, and all warps.
static const int KEYS = 4;
static const int ROUND = WARPS * KEYS;

/// A row's sums over the keys of one warp. `NUMBERS`: of the head in a lane.
template <int NUMBERS> struct State {
    float largest, total, normed;
    float sums[NUMBERS];
};

template <int NUMBERS> DEVICE State<NUMBERS> empty_state() {
    return {MINUS_INFINITY, 0.0f, 0.0f, {}};
}

/// `most`: the largest score so far, that of the next keys included.
template <int NUMBERS> DEVICE void raise_largest(State<NUMBERS> &state, float most) {
    const float shrink = expf(state.largest - most);
    state.largest = most;
    state.total *= shrink;
    state.normed *= shrink;
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) state.sums[i] *= shrink;
}

/// Adds the value of a key with score `s`, and gives its weight.
template <int NUMBERS>
DEVICE float add_value(State<NUMBERS> &state, float s, const float value[NUMBERS]) {
    const float weight = expf(s - state.largest);
    state.total += weight;
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) state.sums[i] += weight * value[i];
    return weight;
}

/// Rows of activations, `dim` numbers of one head of which begin at `at`.
struct OutHead {
    void *out;
    i32 type;
    u64 at;
    i32 dim;

    DEVICE void write(i32 number, float x) const {
        if (type == ACT_F32) ((float *)out)[at + number] = x;
        else if (type == ACT_F16) ((f16 *)out)[at + number] = round_to<f16>(x);
        else ((bf16 *)out)[at + number] = narrow<bf16>(x);
    }
    /// Of a row of no sequence.
    DEVICE void write_zeros() const {
        for (int number = threadIdx.x; number < dim; number += WARPS * 32) write(number, 0.0f);
    }
};

/// Merges the warps and writes the row's head.
template <int NUMBERS>
DEVICE Stats merge_warps(const State<NUMBERS> &state, const OutHead &out, int warp, int lane) {
    __shared__ float sums[WARPS][32 * NUMBERS];
    __shared__ Stats stats[WARPS];
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) sums[warp][lane + 32 * i] = state.sums[i];
    stats[warp] = {state.largest, state.total, state.normed, 0.0f};
    __syncthreads();
    Stats all = no_stats();
    for (int i = 0; i < WARPS; i++) all.largest = fmaxf(all.largest, stats[i].largest);
    float weight[WARPS];
#pragma unroll
    for (int i = 0; i < WARPS; i++) {
        weight[i] = expf(stats[i].largest - all.largest);
        add_weighted(all, stats[i], weight[i]);
    }
    for (int number = threadIdx.x; number < out.dim; number += WARPS * 32) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < WARPS; i++) sum += weight[i] * sums[i][number];
        out.write(number, sum / all.total);
    }
    return all;
}
