// Tensor-core products with keys and values as slots hold them, widened on their way from shared
// memory. Include slots.cuh and slot_rerotate.cuh before it.
//
// A chunk of 16 bytes holds 8 numbers of 16 bits, 16 of 8 bits, or 32 of 4 bits: then numbers
// 16 c .. 16 c + 15 in the upper halves of its bytes, and as many from half of the head on in the
// lower ones.

/// Codes of equal steps; see `Quantiser::Asymmetric8` and `4`.
struct steps8 {};
struct steps4 {};

/// `Query`: what tensor cores multiply. `STEPPED`: numbers are (code - zero point) * scale; codes
/// are multiplied less `MIDDLE`, since sums of small numbers keep more digits.
template <typename Page> struct SlotType {
    typedef Page Query;
    static const int BITS = 16, SCALE_BYTES = 0, MIDDLE = 0;
    static const bool STEPPED = false;
};
template <> struct SlotType<e4m3> {
    typedef f16 Query;
    static const int BITS = 8, SCALE_BYTES = 4, MIDDLE = 0;
    static const bool STEPPED = false;
};
template <> struct SlotType<steps8> {
    typedef f16 Query;
    static const int BITS = 8, SCALE_BYTES = 8, MIDDLE = 128;
    static const bool STEPPED = true;
};
template <> struct SlotType<steps4> {
    typedef f16 Query;
    static const int BITS = 4, SCALE_BYTES = 8, MIDDLE = 8;
    static const bool STEPPED = true;
};

// ---- Codes as f16, two at a time, less their middle. The number 1024 + n has the bits 0x6400 + n.

/// a * b + c, each two f16.
DEVICE u32 multiply_add_pairs(u32 a, u32 b, u32 c) {
    u32 y;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
    return y;
}
static const u32 LIFT = 0x64006400u;
static const u32 ONE = 0x3c003c00u, SIXTEENTH = 0x2c002c00u;

/// Bytes 0 and 2, or 1 and 3, less 128.
DEVICE u32 even_bytes(u32 x) {
    return multiply_add_pairs(pick(x, 0x00ff00ffu, LIFT), ONE, 0xe480e480u);
}
DEVICE u32 odd_bytes(u32 x) {
    return multiply_add_pairs(__byte_perm(x, LIFT >> 8, 0x4341), ONE, 0xe480e480u);
}
/// The lower or upper halves of bytes 0 and 2, less 8. Where they are, the upper ones count
/// sixteenfold.
DEVICE u32 lower_halves(u32 x) {
    return multiply_add_pairs(pick(x, 0x000f000fu, LIFT), ONE, 0xe408e408u);
}
DEVICE u32 upper_halves(u32 x) {
    return multiply_add_pairs(pick(x, 0x00f000f0u, LIFT), SIXTEENTH, 0xd480d480u);
}

/// Where the four numbers of a step of 16 are that a lane has of a head; t: lane % 4.
template <typename Page> DEVICE int place_in_step(int i, int t) {
    if (SlotType<Page>::BITS == 16) return 2 * t + i % 2 + i / 2 * 8;
    return SlotType<Page>::STEPPED ? 4 * t + i % 2 * 2 + i / 2 : 4 * t + i;
}
template <typename Page> DEVICE void load_step(float x[4], const float *from, int t) {
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = from[place_in_step<Page>(i, t)];
}

/// Loads of 32 bytes of each of a tile's keys.
template <typename Page, int STEPS> DEVICE constexpr int key_loads() {
    return STEPS * SlotType<Page>::BITS / 16;
}

/// Calls take(step, a) for the steps of 16 numbers that one load of a tile of 16 keys has: a is the
/// left side of a product, with numbers 0 and 1 of the lane's two keys, then 2 and 3.
/// address(chunk): of a lane's row, from this chunk on.
template <typename Page, int STEPS, typename Address, typename Take>
DEVICE void widen_keys(int load, Address address, Take take) {
    const int bits = SlotType<Page>::BITS, step = 2 * load;
    u32 four[4];
    load_matrices(four, address(step));
    if constexpr (bits == 16) take(load, four);
#pragma unroll
    for (int i = 0; i < (bits == 16 ? 0 : 2); i++) {
        const u32 low = four[2 * i], high = four[2 * i + 1];
        if constexpr (bits == 4) {
            const u32 low_odd = low >> 8, high_odd = high >> 8;
            const u32 upper[4] = {upper_halves(low), upper_halves(high), upper_halves(low_odd),
                                  upper_halves(high_odd)};
            const u32 lower[4] = {lower_halves(low), lower_halves(high), lower_halves(low_odd),
                                  lower_halves(high_odd)};
            take(step + i, upper);
            take(step + i + STEPS / 2, lower);
        } else if constexpr (SlotType<Page>::STEPPED) {
            const u32 a[4] = {even_bytes(low), even_bytes(high), odd_bytes(low), odd_bytes(high)};
            take(step + i, a);
        } else {
            const u32 a[4] = {widen_pair<Page>(low), widen_pair<Page>(high),
                              widen_pair<Page>(low >> 16), widen_pair<Page>(high >> 16)};
            take(step + i, a);
        }
    }
}

/// s += keys * queries; address as above.
template <typename Page, int STEPS, typename Address>
DEVICE void multiply_keys(float s[4], const u32 q[STEPS][2], Address address) {
    typedef typename SlotType<Page>::Query Query;
#pragma unroll
    for (int load = 0; load < key_loads<Page, STEPS>(); load++)
        widen_keys<Page, STEPS>(load, address, [&](int step, const u32(&a)[4]) {
            mma<Query>(s, a, q[step]);
        });
}

/// What is known of a lane's two keys that turn: their codes less `zero` times `scale` are numbers.
struct RerotatingKeys {
    const float *inv_freqs;
    bool is_interleaved;
    float positions[2], scale[2], zero[2];

    /// Of two codes of one of the keys.
    template <typename Page> DEVICE u32 numbers(u32 codes, int key) const {
        typedef typename SlotType<Page>::Query Query;
        if (SlotType<Page>::SCALE_BYTES == 0) return codes;
        return pack<Query>((low_of<Query>(codes) - zero[key]) * scale[key],
                           (high_of<Query>(codes) - zero[key]) * scale[key]);
    }
};

/// Turns two steps of a head, half of it apart.
template <typename Page, int STEPS>
DEVICE void turn_steps(u32 (&a)[2][4], int step, const RerotatingKeys &keys, int t) {
    typedef typename SlotType<Page>::Query Query;
    const auto by = [&](int word, int pair) {
        return Turn(keys.positions[word % 2], keys.inv_freqs[pair]);
    };
    if (!keys.is_interleaved) {
#pragma unroll
        for (int word = 0; word < 4; word++) {
            const int low = 16 * step + place_in_step<Page>(word / 2 * 2, t);
            const int high = 16 * step + place_in_step<Page>(word / 2 * 2 + 1, t);
            turn_words<Query>(a[0][word], a[1][word], by(word, low), by(word, high));
        }
        return;
    }
    // Neighbours are one word, or two of even and odd numbers.
    const bool apart = SlotType<Page>::STEPPED;
#pragma unroll
    for (int i = 0; i < (apart ? 4 : 8); i++) {
        const int half = i % 2, word = i / 2;
        const int pair = 8 * (step + half * STEPS / 2) + place_in_step<Page>(word / 2 * 2, t) / 2;
        const Turn turn = by(word, pair);
        if (apart) turn_words<Query>(a[half][word], a[half][word + 2], turn, by(word, pair + 1));
        else turn_word<Query>(a[half][word], turn);
    }
}

/// s += keys * queries, of keys whose whole heads turn first; address as above.
template <typename Page, int STEPS, typename Address>
DEVICE void multiply_rerotated_keys(float s[4], const u32 q[STEPS][2], Address address,
                                 const RerotatingKeys &keys, int t) {
    typedef typename SlotType<Page>::Query Query;
    const int half = STEPS / 2, loads = key_loads<Page, STEPS>();
    const bool in_one = SlotType<Page>::BITS == 4;
    const int steps = SlotType<Page>::BITS == 16 ? 1 : 2;
#pragma unroll
    for (int load = 0; load < (in_one ? loads : loads / 2); load++) {
        u32 a[steps][2][4];
        const auto take = [&](int step, const u32(&codes)[4]) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[step % steps][step / half][i] = keys.numbers<Page>(codes[i], i % 2);
        };
        widen_keys<Page, STEPS>(load, address, take);
        if (!in_one) widen_keys<Page, STEPS>(load + loads / 2, address, take);
#pragma unroll
        for (int i = 0; i < steps; i++) {
            const int step = load * steps + i;
            turn_steps<Page, STEPS>(a[i], step, keys, t);
            mma<Query>(s, a[i][0], q[step]);
            mma<Query>(s, a[i][1], q[step + half]);
        }
    }
}

/// sums += values * weights; address(row, chunk): in a tile of 16 values.
template <typename Page, int STEPS, typename Address>
DEVICE void multiply_values(float sums[STEPS][4], const u32 weights[2], Address address, int lane) {
    typedef typename SlotType<Page>::Query Query;
    const int bits = SlotType<Page>::BITS;
#pragma unroll
    for (int step = 0; step < STEPS * bits / 8; step += 2) {
        u32 four[4];
        if constexpr (bits == 16) {
            const int row = lane % 8 + lane / 16 * 8;
            load_matrices_transposed(four, address(row, step + lane / 8 % 2));
            mma<Query>(sums[step / 2], four, weights);
        } else {
            load_matrices_transposed(four, address(lane % 16, step + lane / 16));
        }
#pragma unroll
        for (int i = 0; i < (bits == 16 ? 0 : 2); i++) {
            const u32 low = four[2 * i], high = four[2 * i + 1];
            if constexpr (bits == 4) {
                const u32 low_odd = low >> 8, high_odd = high >> 8;
                const u32 upper[4] = {upper_halves(low), upper_halves(low_odd),
                                      upper_halves(high), upper_halves(high_odd)};
                const u32 lower[4] = {lower_halves(low), lower_halves(low_odd),
                                      lower_halves(high), lower_halves(high_odd)};
                mma<Query>(sums[step + i], upper, weights);
                mma<Query>(sums[step + i + STEPS / 2], lower, weights);
            } else if constexpr (SlotType<Page>::STEPPED) {
                const u32 a[4] = {even_bytes(low), odd_bytes(low), even_bytes(high),
                                  odd_bytes(high)};
                mma<Query>(sums[step + i], a, weights);
            } else {
                const u32 a[4] = {widen_pair<Page>(__byte_perm(low, 0, 0x4420)),
                                  widen_pair<Page>(__byte_perm(low, 0, 0x4431)),
                                  widen_pair<Page>(__byte_perm(high, 0, 0x4420)),
                                  widen_pair<Page>(__byte_perm(high, 0, 0x4431))};
                mma<Query>(sums[step + i], a, weights);
            }
        }
    }
}

/// Number of the head that `sums[step][2 * half ..]` is for.
template <typename Page> DEVICE int number_of(int step, int half, int lane) {
    return 16 * step + (SlotType<Page>::BITS == 16 ? lane / 4 + 8 * half : lane / 4 * 2 + half);
}

/// Copies 4 or 8 bytes to shared memory in the background; zeros when `is_there` is false.
template <int BYTES> DEVICE void copy_async_small(u32 shared, const void *global, bool is_there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global),
                 "n"(BYTES), "r"(is_there ? BYTES : 0)
                 : "memory");
}

/// How the second-level cache treats what is read once: it leaves before anything else does.
DEVICE u64 passing_policy() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
/// Copies 16 bytes to shared memory in the background; zeros when `is_there` is false.
DEVICE void copy_passing16(u32 shared, const void *global, bool is_there, u64 policy) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared),
                 "l"(global), "r"(is_there ? 16 : 0), "l"(policy)
                 : "memory");
}
