// What is known of a head's softmax, and how that of other keys is added. To be included after
// pages.cuh or slots.cuh.

/// The largest score (in powers of two, but for the plain kernels), the total, and the total with
/// the norms of values where a policy asks for it.
struct alignas(16) Stats {
    float largest, total, normed, unused;
};

/// Before any key is seen.
DEVICE Stats no_stats() {
    return {MINUS_INFINITY, 0.0f, 0.0f, 0.0f};
}

/// `weight` is what the exponentials of `some` are worth in those of `all`.
DEVICE void add_weighted(Stats &all, const Stats &some, float weight) {
    all.total += weight * some.total;
    all.normed += weight * some.normed;
}
