// Keys that are rotated on read. Include slots.cuh before it.
//
// A key's angles are a number of positions times its sequence's frequencies, rounded to f32, as
// those of queries are. Their sines and cosines are good to 20 bits: re-rotated keys are rounded to
// half-width numbers.

static constexpr float LOG2_E = 1.44269504f;

/// How the keys of a step's sequences are rotated on read.
struct ReadRope {
    /// f32 [seqs, pairs]; f32 [pairs] for all sequences where keys are stored
    /// rotated and only protected ones are re-rotated; null where no key is.
    const float *inv_freqs;
    /// f32 [seqs]: of attention, instead of the kernel's own; null where keys are stored rotated.
    const float *scales;
    i32 pairs, is_interleaved;
};

/// How those of one sequence are rotated.
struct SeqRotation {
    /// [pairs]
    const float *inv_freqs;
    bool is_interleaved, rotates_all;
    /// First slots, whose keys are rotated forward by so many positions.
    i32 protected_slots, rerotated;

    /// By how many positions a slot's key is rotated.
    DEVICE float by(i32 slot, i32 position) const {
        const i32 own = rotates_all ? position : 0;
        return (float)(slot < protected_slots ? own + rerotated : own);
    }
};

/// By nothing where no key is.
DEVICE SeqRotation rotation_of_seq(const ReadRope &rope, const Rule &rule, i32 seq) {
    const bool rotates_all = rope.scales != nullptr;
    const float *inv_freqs = rope.inv_freqs + (rotates_all ? seq * rope.pairs : 0);
    const i32 protected_slots = rope.inv_freqs ? rule.protected_tokens : 0;
    return {inv_freqs, rope.is_interleaved != 0, rotates_all, protected_slots, rule.rerotated};
}

/// The softmax's scale times log2(e); `scale` where sequences have none of their own.
DEVICE float scale_of_seq(const ReadRope &rope, i32 seq, float scale) {
    return rope.scales ? rope.scales[seq] * LOG2_E : scale;
}

/// What a pair of numbers is rotated by.
struct Rotation {
    float cos, sin;
    DEVICE Rotation(float positions, float inv_freq) {
        const float angle = __fmul_rn(positions, inv_freq);
        // Whole turns come off first, which are 2 pi in two parts: the instructions for sines are
        // good near zero only.
        const float whole = rintf(angle * 0.159154943f);
        const float rest = fmaf(whole, 1.74845553e-7f, fmaf(whole, -6.28318548f, angle));
        cos = __cosf(rest);
        sin = __sinf(rest);
    }
    DEVICE float first(float a, float b) const { return a * cos - b * sin; }
    DEVICE float second(float a, float b) const { return b * cos + a * sin; }
};

/// Rotates the pairs that two words of half-width numbers have in their low and high halves.
template <typename T>
DEVICE void rotate_words(u32 &a, u32 &b, const Rotation &low, const Rotation &high) {
    const float a0 = low_of<T>(a), a1 = high_of<T>(a), b0 = low_of<T>(b), b1 = high_of<T>(b);
    a = pack<T>(low.first(a0, b0), high.first(a1, b1));
    b = pack<T>(low.second(a0, b0), high.second(a1, b1));
}
/// Rotates the pair that is one word.
template <typename T> DEVICE void rotate_word(u32 &word, const Rotation &rotation) {
    const float a = low_of<T>(word), b = high_of<T>(word);
    word = pack<T>(rotation.first(a, b), rotation.second(a, b));
}
