// Tensor-core products with keys that are rotated on read. Include row_products.cuh and
// slot_rerotate.cuh before it.

/// What is known of a lane's two keys that are rotated: their quantised values less `zero` times
/// `scale` are numbers.
struct RerotatingKeys {
    const float *inv_freqs;
    bool is_interleaved;
    float positions[2], scale[2], zero[2];

    /// Of two quantised values of one of the keys.
    template <typename Page> DEVICE u32 numbers(u32 quants, int key) const {
        typedef typename RowType<Page>::Query Query;
        if (RowType<Page>::SCALE_BYTES == 0) return quants;
        return pack<Query>((low_of<Query>(quants) - zero[key]) * scale[key],
                           (high_of<Query>(quants) - zero[key]) * scale[key]);
    }
};

/// Rotates two steps of a head, half of it apart.
template <typename Page, int STEPS>
DEVICE void rotate_steps(u32 (&a)[2][4], int step, const RerotatingKeys &keys, int t) {
    typedef typename RowType<Page>::Query Query;
    const auto by = [&](int word, int pair) {
        return Rotation(keys.positions[word % 2], keys.inv_freqs[pair]);
    };
    if (!keys.is_interleaved) {
#pragma unroll
        for (int word = 0; word < 4; word++) {
            const int low = number_of_key<Page>(step, word / 2 * 2, t);
            const int high = number_of_key<Page>(step, word / 2 * 2 + 1, t);
            rotate_words<Query>(a[0][word], a[1][word], by(word, low), by(word, high));
        }
        return;
    }
    // Neighbours are one word, or two of even and odd numbers.
    const bool apart = RowType<Page>::STEPPED;
#pragma unroll
    for (int i = 0; i < (apart ? 4 : 8); i++) {
        const int half = i % 2, word = i / 2;
        const int pair = number_of_key<Page>(step + half * STEPS / 2, word / 2 * 2, t) / 2;
        const Rotation rotation = by(word, pair);
        if (apart)
            rotate_words<Query>(a[half][word], a[half][word + 2], rotation, by(word, pair + 1));
        else rotate_word<Query>(a[half][word], rotation);
    }
}

/// s += keys * queries, of keys whose whole heads are rotated first; address as above.
template <typename Page, int STEPS, typename Address>
DEVICE void multiply_rerotated_keys(float s[4], const u32 q[STEPS][2], Address address,
                                 const RerotatingKeys &keys, int t) {
    typedef typename RowType<Page>::Query Query;
    const int half = STEPS / 2, loads = key_loads<Page, STEPS>();
    // Whether a load has numbers of both halves of a head.
    const bool in_one = RowType<Page>::BITS == 4 && (RowType<Page>::STEPPED || loads == 1);
    const int steps = STEPS / (in_one ? 2 * loads : loads);
#pragma unroll
    for (int load = 0; load < (in_one ? loads : loads / 2); load++) {
        u32 a[steps][2][4];
        const auto take = [&](int step, const u32(&quants)[4]) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[step % steps][step / half][i] = keys.numbers<Page>(quants[i], i % 2);
        };
        widen_keys<Page, STEPS>(load, address, take);
        if (!in_one) widen_keys<Page, STEPS>(load + loads / 2, address, take);
#pragma unroll
        for (int i = 0; i < steps; i++) {
            const int step = load * steps + i;
            rotate_steps<Page, STEPS>(a[i], step, keys, t);
            mma<Query>(s, a[i][0], q[step]);
            mma<Query>(s, a[i][1], q[step + half]);
        }
    }
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
