// A step's queries, keys and values as one product gives them: heads that are normalised where the
// model asks for it, and rotated. One warp has a head; a lane has four neighbouring numbers of it,
// twice for heads over 128.
//
// Include pages.cuh before it, or what includes that.

static const int HEAD_DIM_MAX = 256;

/// f32 [tokens, rotary_dim / 2]
struct Angles {
    const float *cos, *sin;
};

struct LiveHeads {
    /// Activations [tokens, row_stride], with queries, keys and values from these columns on.
    const void *qkv;
    Angles angles;
    /// f32 [head_dim], or null for none.
    const float *q_norm, *k_norm;
    i32 heads, head_dim, rotary_dim;
    i32 row_stride, q_column, k_column, v_column;
    i32 is_interleaved, qkv_type;
    float eps;
};

/// Which head of which token a warp has.
struct Head {
    i32 token;
    /// 0 query, 1 key, 2 value, and the index among those.
    i32 side, index;
};

/// Whether four neighbours can be read and written at once, as in all models that are known.
DEVICE bool in_fours(const LiveHeads &p) {
    return ((p.head_dim | p.row_stride | p.q_column | p.k_column | p.v_column) & 3) == 0;
}
template <typename T> DEVICE void load(float x[4], const T *from, i32 count, bool in_fours) {
    if (in_fours) return load_four<T>(x, from);
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = i < count ? widen(from[i]) : 0.0f;
}
template <typename T> DEVICE void store(T *to, const float x[4], i32 count, bool in_fours) {
    if (in_fours) return store_four<T>(to, x);
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < count) to[i] = narrow<T>(x[i]);
}

/// One head, of which a lane has `GROUPS` times four neighbours. Numbers past its end are zeros.
template <int GROUPS> struct Row {
    float x[GROUPS][4];
};

template <int GROUPS>
DEVICE Row<GROUPS> load_head(const LiveHeads &p, const Head &head, int lane) {
    const i32 column = head.side == 0 ? p.q_column : head.side == 1 ? p.k_column : p.v_column;
    const u64 start = (u64)head.token * p.row_stride + column + head.index * p.head_dim;
    Row<GROUPS> row = {};
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at >= p.head_dim) continue;
        const i32 count = p.head_dim - at;
        if (p.qkv_type == ACT_F32) {
            load(row.x[group], (const float *)p.qkv + start + at, count, in_fours(p));
        } else if (p.qkv_type == ACT_F16) {
            load(row.x[group], (const f16 *)p.qkv + start + at, count, in_fours(p));
        } else {
            load(row.x[group], (const bf16 *)p.qkv + start + at, count, in_fours(p));
        }
    }
    return row;
}

template <int GROUPS>
DEVICE void normalise(const LiveHeads &p, const float *weight, Row<GROUPS> &row, int lane) {
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 4 * GROUPS; i++) squares += row.x[i / 4][i % 4] * row.x[i / 4][i % 4];
    const float factor = 1.0f / sqrtf(warp_sum(squares) / (float)p.head_dim + p.eps);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at >= p.head_dim) continue;
        float w[4];
        load(w, weight + at, p.head_dim - at, in_fours(p));
#pragma unroll
        for (int i = 0; i < 4; i++) row.x[group][i] = w[i] * (row.x[group][i] * factor);
    }
}

/// One of a pair: `x` rotated by an angle, `partner` the other of the pair. Without fused
/// operations, because the CPU's reference rounds as often.
DEVICE float rotated(float x, float partner, bool is_second, float cos, float sin) {
    const float kept = __fmul_rn(x, cos), rerotated = __fmul_rn(partner, sin);
    return is_second ? __fadd_rn(kept, rerotated) : __fsub_rn(kept, rerotated);
}

/// Turns the pairs of neighbours.
template <int GROUPS>
DEVICE void rotate_interleaved(const LiveHeads &p, const Angles &angles, i32 token,
                               Row<GROUPS> &row, int lane) {
    const u64 first_angle = (u64)token * (p.rotary_dim / 2);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        float *x = row.x[group];
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            if (at + i >= p.rotary_dim) continue;
            const u64 angle = first_angle + (at + i) / 2;
            const float cos = angles.cos[angle], sin = angles.sin[angle];
            const float first = rotated(x[i], x[i + 1], false, cos, sin);
            x[i + 1] = rotated(x[i + 1], x[i], true, cos, sin);
            x[i] = first;
        }
    }
}

/// Turns pairs that lie half a rotation apart; `shared` takes the row, since the other half of a
/// lane's pairs is another lane's.
template <int GROUPS>
DEVICE void rotate_halves_singly(const LiveHeads &p, const Angles &angles, i32 token,
                                 float *shared, Row<GROUPS> &row, int lane) {
    const i32 pairs = p.rotary_dim / 2;
#pragma unroll
    for (int group = 0; group < GROUPS; group++)
        store_four<float>(shared + 128 * group + 4 * lane, row.x[group]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4 * GROUPS; i++) {
        const i32 at = i / 4 * 128 + 4 * lane + i % 4;
        if (at >= p.rotary_dim) continue;
        const bool is_second = pairs <= at;
        const i32 partner = is_second ? at - pairs : at + pairs;
        const u64 angle = (u64)token * pairs + (is_second ? partner : at);
        float &x = row.x[i / 4][i % 4];
        x = rotated(x, shared[partner], is_second, angles.cos[angle], angles.sin[angle]);
    }
}

/// The same where four neighbours are in the same half.
template <int GROUPS>
DEVICE void rotate_halves(const LiveHeads &p, const Angles &angles, i32 token, float *shared,
                          Row<GROUPS> &row, int lane) {
    const i32 pairs = p.rotary_dim / 2;
    float cos[GROUPS][4], sin[GROUPS][4];
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at >= p.rotary_dim) continue;
        const u64 angle = (u64)token * pairs + (at < pairs ? at : at - pairs);
        load_four<float>(cos[group], angles.cos + angle);
        load_four<float>(sin[group], angles.sin + angle);
        store_four<float>(shared + at, row.x[group]);
    }
    __syncwarp();
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at >= p.rotary_dim) continue;
        const bool is_second = pairs <= at;
        float partner[4];
        load_four<float>(partner, shared + (is_second ? at - pairs : at + pairs));
#pragma unroll
        for (int i = 0; i < 4; i++)
            row.x[group][i] =
                rotated(row.x[group][i], partner[i], is_second, cos[group][i], sin[group][i]);
    }
}

/// Turns a query or key by its token's angles; `shared`: room for the row.
template <int GROUPS>
DEVICE void rotate(const LiveHeads &p, const Angles &angles, i32 token, float *shared,
                   Row<GROUPS> &row, int lane) {
    __syncwarp();
    if (p.is_interleaved) rotate_interleaved(p, angles, token, row, lane);
    else if (p.rotary_dim % 8 == 0) rotate_halves(p, angles, token, shared, row, lane);
    else rotate_halves_singly(p, angles, token, shared, row, lane);
}

/// Writes numbers to where the row begins.
template <typename T, int GROUPS>
DEVICE void store_head(const LiveHeads &p, T *to, const Row<GROUPS> &row, int lane) {
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const i32 at = 128 * group + 4 * lane;
        if (at < p.head_dim) store(to + at, row.x[group], p.head_dim - at, in_fours(p));
    }
}
