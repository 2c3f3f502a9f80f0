// ptx: f32
//
// Scores of the next token in, one token out: the stages of the host's sampler, in its order.
//
// On Hopper a row is the work of a cluster of eight blocks. Each reads its slice of the row once
// and keeps it in shared memory; what the blocks must know of each other they read from each
// other's shared memory. Elsewhere one block works on a row and reads it anew in every pass.
//
// Nothing is sorted. Filters look for the score at which a running count (top-k) or a running
// mass (top-p) reaches its goal: a histogram of the leading bits of all scores, then two more of
// the bits behind them among those that agree so far. Mass is a whole number (weight * 2^40), so
// sums do not depend on their order, and a row gives the same token alone and in any batch.

#include "prelude.cuh"

#if __CUDA_ARCH__ >= 900
#define CLUSTER __cluster_dims__(8, 1, 1)
constexpr u32 PARTS = 8;
#else
#define CLUSTER
constexpr u32 PARTS = 1;
#endif

constexpr u32 THREADS = 512;
constexpr u32 WARPS = THREADS / 32;
constexpr u32 NONE = ~0u;
/// Of a histogram; four for each thread.
constexpr u32 BINS = 4 * THREADS;
/// Scores are at most 0. Below -28.5 a token's mass is 0: it is never drawn, and tells no filter
/// anything.
constexpr float LEAST_SCORE = -28.5f;
constexpr float MASS_OF_ONE = 1099511627776.0f;
#define INFINITE __uint_as_float(0x7f800000u)

enum Mode : u32 { SKIP = 0, GREEDY = 1, DRAW = 2 };

struct SampleRow {
    u64 seed;
    u64 position;
    float temperature;
    /// 1 or more keeps all.
    float top_p;
    /// ln(min_p)
    float least_score;
    /// 0 keeps all.
    u32 top_k;
    u32 choice;
    /// Which of the rows of logits to choose from.
    u32 logits_row;
    u32 mode;
    u32 unused;
};

struct SampleParams {
    const float *logits;
    const SampleRow *rows;
    i32 *ids;
    /// A second home of the ids, in pinned memory of the host, or null.
    i32 *host_ids;
    u32 vocab;
    u32 logits_stride;
};

struct Shared {
    alignas(16) u32 low[2][BINS];
    alignas(16) u32 high[2][BINS];
    u64 warp_best[WARPS];
    u64 warp_amount[WARPS];
    /// Of this part: ties, then what is drawn from.
    u64 part_amount[2];
    u64 crossing_before;
    u64 crossing_inside;
    u32 crossing_bin;
    u32 tie_end;
};

// ---- The parts of a row.

DEVICE u32 my_part() {
    return blockIdx.x % PARTS;
}

/// Every thread of every part; what they wrote to shared memory is seen by all.
DEVICE void sync_parts() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

/// The same variable in another part's shared memory.
DEVICE u32 in_part(const void *pointer, u32 part) {
    u32 address = shared_address(pointer);
#if __CUDA_ARCH__ >= 900
    asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(part));
#endif
    return address;
}

#if __CUDA_ARCH__ >= 900
#define LOAD_PART "ld.shared::cluster"
#else
#define LOAD_PART "ld.shared"
#endif

DEVICE u64 load_from_part(const u64 *pointer, u32 part) {
    u64 x;
    asm volatile(LOAD_PART ".u64 %0, [%1];" : "=l"(x) : "r"(in_part(pointer, part)) : "memory");
    return x;
}
DEVICE Vec16 load_from_part(const u32 *four, u32 part) {
    Vec16 x;
    asm volatile(LOAD_PART ".v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.word[0]), "=r"(x.word[1]), "=r"(x.word[2]), "=r"(x.word[3])
                 : "r"(in_part(four, part))
                 : "memory");
    return x;
}

// ---- The best score.

/// Larger for a larger score, then for a lower id; 0 is nobody.
DEVICE u64 rank_of(float score, u32 id) {
    if (id == NONE) return 0;
    // Both zeros are one score.
    u32 bits = __float_as_uint(score + 0.0f);
    u32 ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (u64)ordered << 32 | ~id;
}
DEVICE i32 id_of(u64 rank) {
    return (i32) ~(u32)rank;
}
DEVICE float score_of(u64 rank) {
    u32 ordered = (u32)(rank >> 32);
    return __uint_as_float(ordered >> 31 ? ordered & 0x7fffffffu : ~ordered);
}

DEVICE u64 warp_best(u64 rank) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        u64 other = __shfl_xor_sync(~0u, rank, step);
        rank = other > rank ? other : rank;
    }
    return rank;
}

/// This part's share of a row.
struct Slice {
    const float *logits;
    /// In shared memory: the logits, then the scores. Hopper only.
    float *kept;
    u32 first_id;
    u32 count;
    float best;
    float temperature;

    /// The logit relative to the best one, over the temperature: 0 for the best.
    DEVICE float scored(float logit) const {
        return __fdiv_rn(__fsub_rn(logit, best), temperature);
    }
    DEVICE float score(u32 i) const {
        return PARTS > 1 ? kept[i] : scored(logits[i]);
    }
};

DEVICE Slice slice_of(const SampleParams &p, u32 logits_row, float *kept) {
    // Whole vectors, so that all parts of an aligned row are aligned.
    u32 whole = ((p.vocab + PARTS - 1) / PARTS + 3) / 4 * 4;
    u32 first_id = min(my_part() * whole, p.vocab);
    const float *row = p.logits + (u64)logits_row * p.logits_stride;
    return {row + first_id, kept, first_id, min(whole, p.vocab - first_id), 0.0f, 1.0f};
}

/// The lowest place of the largest number, of those this thread reads; `KEEP` copies the slice.
template <bool KEEP> DEVICE u64 read_slice(const Slice &slice) {
    float best = -INFINITE;
    u32 place = NONE;
    // A comparison with what is not a number is false: it is passed over.
    auto look = [&](float logit, u32 i) {
        if (logit > best) {
            best = logit;
            place = i;
        }
    };
    u32 vectors = fits_16((u64)slice.logits) ? slice.count / 4 : 0;
    constexpr u32 BATCH = 4;
    for (u32 start = threadIdx.x; start < vectors; start += BATCH * THREADS) {
        Vec16 x[BATCH];
#pragma unroll
        for (u32 j = 0; j < BATCH; ++j) {
            u32 at = start + j * THREADS;
            if (at < vectors) x[j] = load16(slice.logits + 4 * at);
        }
#pragma unroll
        for (u32 j = 0; j < BATCH; ++j) {
            u32 at = start + j * THREADS;
            if (at >= vectors) break;
            if (KEEP) store16(slice.kept + 4 * at, x[j]);
#pragma unroll
            for (u32 i = 0; i < 4; ++i) look(__uint_as_float(x[j].word[i]), 4 * at + i);
        }
    }
    for (u32 i = 4 * vectors + threadIdx.x; i < slice.count; i += THREADS) {
        float logit = slice.logits[i];
        if (KEEP) slice.kept[i] = logit;
        look(logit, i);
    }
    return rank_of(best, place == NONE ? NONE : slice.first_id + place);
}

/// Of the whole row; every thread gets it.
DEVICE u64 best_of_row(Shared &shared, u64 rank) {
    rank = warp_best(rank);
    u32 lane = threadIdx.x % 32;
    if (lane == 0) shared.warp_best[threadIdx.x / 32] = rank;
    sync_parts();
    rank = 0;
    for (u32 i = lane; i < PARTS * WARPS; i += 32) {
        u64 other = load_from_part(shared.warp_best + i % WARPS, i / WARPS);
        rank = other > rank ? other : rank;
    }
    return warp_best(rank);
}

// ---- Weights and their mass.

/// e^x for x ≤ 0, operation by operation as the host's `exp`, so that weights are equal in bits.
DEVICE float weight_of(float x) {
    const float rounder = 12582912.0f;
    float rounded = __fadd_rn(__fmul_rn(x, 1.44269504f), rounder);
    float power = __fsub_rn(rounded, rounder);
    float rest = __fsub_rn(x, __fmul_rn(power, 0.6933594f));
    rest = __fsub_rn(rest, __fmul_rn(power, -2.1219444e-4f));
    const float coefficients[] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f,
                                  0.5f, 1.0f, 1.0f};
    float series = 1.0f / 5040.0f;
#pragma unroll
    for (int i = 0; i < 7; ++i) series = __fadd_rn(__fmul_rn(series, rest), coefficients[i]);
    return __fmul_rn(series, __uint_as_float((__float_as_uint(rounded) + 127) << 23));
}

DEVICE u64 mass_of(float weight) {
    return __float2ull_rn(weight * MASS_OF_ONE);
}

/// Rises as weights fall.
DEVICE u32 weight_key(float weight) {
    return 0x3f800000u - __float_as_uint(weight);
}
DEVICE float weight_of_key(u32 key) {
    return __uint_as_float(0x3f800000u - key);
}

/// What the filters leave: a token's key must not be above a cut.
struct Filters {
    /// Of the distance to the best score.
    u32 distance_cut;
    u32 weight_cut;
    /// Ties at the weight's cut stay before this place of the slice.
    u32 tie_end;
    float least_score;
};

/// Rises as scores fall; `NONE` for what cannot be drawn.
DEVICE u32 distance_key(float score) {
    return score > LEAST_SCORE ? __float_as_uint(score) & 0x7fffffffu : NONE;
}

/// 0 for what top-k has dropped.
DEVICE float weight_after_top_k(const Slice &slice, const Filters &filters, u32 i) {
    float score = slice.score(i);
    u32 key = distance_key(score);
    return key != NONE && key <= filters.distance_cut ? weight_of(score) : 0.0f;
}

/// 0 for what any filter has dropped.
DEVICE u64 mass_after_all(const Slice &slice, const Filters &filters, u32 i) {
    if (slice.score(i) < filters.least_score) return 0;
    float weight = weight_after_top_k(slice, filters, i);
    u32 key = weight_key(weight);
    bool stays = key < filters.weight_cut || (key == filters.weight_cut && i < filters.tie_end);
    return stays ? mass_of(weight) : 0;
}

// ---- Running amounts.

/// The sum before this thread's, and the block's. One barrier; another must lie between two uses.
DEVICE u64 block_scan(Shared &shared, u64 amount, u64 &total) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 sum = amount;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        u64 other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == 31) shared.warp_amount[warp] = sum;
    __syncthreads();
    u64 before = sum - amount;
    total = 0;
#pragma unroll
    for (u32 i = 0; i < WARPS; ++i) {
        u64 other = shared.warp_amount[i];
        if (i < warp) before += other;
        total += other;
    }
    return before;
}

DEVICE void clear_histogram(Shared &shared, u32 buffer) {
    store16(&shared.low[buffer][4 * threadIdx.x], {0, 0, 0, 0});
    store16(&shared.high[buffer][4 * threadIdx.x], {0, 0, 0, 0});
}

/// A sum of 64 bits from atomics of 32: whoever makes the low half wrap carries.
DEVICE void add_mass(Shared &shared, u32 buffer, u32 bin, u64 mass) {
    u32 low = (u32)mass;
    u32 before = atomicAdd(&shared.low[buffer][bin], low);
    u32 high = (u32)(mass >> 32) + (before + low < low);
    if (high != 0) atomicAdd(&shared.high[buffer][bin], high);
}

/// The bin where the running amount, over the bins of all parts, reaches the goal, left in
/// `shared.crossing…`. `goal_of` is told the whole amount; returns the goal, or 0 if it is not
/// reached.
template <bool MASS, typename GoalOf>
DEVICE u64 find_bin(Shared &shared, u32 buffer, GoalOf goal_of) {
    u64 amounts[4] = {0, 0, 0, 0};
#pragma unroll
    for (u32 part = 0; part < PARTS; ++part) {
        Vec16 low = load_from_part(&shared.low[buffer][4 * threadIdx.x], part);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) amounts[i] += low.word[i];
        if (MASS) {
            Vec16 high = load_from_part(&shared.high[buffer][4 * threadIdx.x], part);
#pragma unroll
            for (u32 i = 0; i < 4; ++i) amounts[i] += (u64)high.word[i] << 32;
        }
    }
    u64 total;
    u64 before = block_scan(shared, amounts[0] + amounts[1] + amounts[2] + amounts[3], total);
    u64 goal = goal_of(total);
    if (goal > total) goal = 0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        if (before < goal && goal <= before + amounts[i]) {
            shared.crossing_bin = 4 * threadIdx.x + i;
            shared.crossing_before = before;
            shared.crossing_inside = amounts[i];
        }
        before += amounts[i];
    }
    __syncthreads();
    return goal;
}

/// Where a running amount over rising keys first reaches its goal.
struct Crossing {
    /// `NONE` if it never does.
    u32 key;
    /// Of the goal, what lies at this key.
    u64 rest;
    /// All that lies at this key.
    u64 inside;
};

/// Finds it in three passes: the last two look at `STEP` bits each, the first at all above them.
///
/// `key_of` gives the key of a place or `NONE`, `mass_of_key` its amount; without `MASS` every
/// token counts 1. Passes take turns with the two histograms, for other parts may still read the
/// last one. `buffer` says whose turn it is; that one is clear.
template <bool MASS, u32 STEP, typename KeyOf, typename MassOfKey, typename GoalOf>
DEVICE Crossing find_crossing(Shared &shared, u32 &buffer, u32 count, KeyOf key_of,
                              MassOfKey mass_of_key, GoalOf goal_of) {
    u32 prefix = 0;
    u64 rest = 0;
#pragma unroll 1
    for (u32 pass = 0; pass < 3; ++pass) {
        u32 shift = (2 - pass) * STEP;
        u32 first = prefix << STEP, width = pass == 0 ? BINS : 1u << STEP;
        for (u32 i = threadIdx.x; i < count; i += THREADS) {
            u32 key = key_of(i);
            u32 bin = (key >> shift) - first;
            if (key == NONE || bin >= width) continue;
            if (MASS) {
                add_mass(shared, buffer, bin, mass_of_key(key));
            } else {
                atomicAdd(&shared.low[buffer][bin], 1u);
            }
        }
        sync_parts();
        clear_histogram(shared, 1 - buffer);
        u64 known = rest;
        u64 goal = find_bin<MASS>(shared, buffer, [&](u64 total) {
            return pass == 0 ? goal_of(total) : known;
        });
        buffer = 1 - buffer;
        if (goal == 0) return {NONE, 0, 0};
        prefix = first + shared.crossing_bin;
        rest = goal - shared.crossing_before;
    }
    return {prefix, rest, shared.crossing_inside};
}

/// Where a running amount over rising places of the row reaches its goal.
struct Place {
    /// The place in the slice, for the one thread that holds it; `NONE` for all others.
    u32 found;
    bool is_in_later_part;
    u64 total;
};

/// Each thread sums neighbouring places. Their number is odd, so that the threads of a warp read
/// from different banks.
template <typename AmountAt, typename GoalOf>
DEVICE Place find_place(Shared &shared, u64 &part_amount, u32 count, AmountAt amount_at,
                        GoalOf goal_of) {
    u32 length = ((count + THREADS - 1) / THREADS) | 1;
    u32 first = min(threadIdx.x * length, count), end = min(first + length, count);
    u64 amount = 0;
    for (u32 i = first; i < end; ++i) amount += amount_at(i);
    u64 mine;
    u64 before = block_scan(shared, amount, mine);
    if (threadIdx.x == 0) part_amount = mine;
    sync_parts();
    u64 total = 0;
#pragma unroll
    for (u32 part = 0; part < PARTS; ++part) {
        u64 other = load_from_part(&part_amount, part);
        if (part < my_part()) before += other;
        if (part == my_part()) mine += total;
        total += other;
    }
    u64 goal = goal_of(total);
    Place place = {NONE, goal > mine, total};
    if (goal <= before || goal > before + amount) return place;
#pragma unroll 1
    for (u32 i = first; i < end; ++i) {
        before += amount_at(i);
        if (before >= goal) {
            place.found = i;
            break;
        }
    }
    return place;
}

// ---- The stages.

/// The distance of the `k`-th best score; several may share it, and all of them stay.
DEVICE u32 top_k(Shared &shared, u32 &buffer, const Slice &slice, u32 k) {
    auto key_of = [&](u32 i) { return distance_key(slice.score(i)); };
    auto no_mass = [](u32) { return 0ull; };
    auto goal_of = [=](u64) { return (u64)k; };
    return find_crossing<false, 10>(shared, buffer, slice.count, key_of, no_mass, goal_of).key;
}

/// A token stays if those before it, heaviest first, hold less than `p` of the mass; of equal ones
/// the lower id comes first.
DEVICE void top_p(Shared &shared, u32 &buffer, const Slice &slice, float p, Filters &filters) {
    auto key_of = [&](u32 i) {
        float weight = weight_after_top_k(slice, filters, i);
        return weight * MASS_OF_ONE > 0.5f ? weight_key(weight) : NONE;
    };
    auto mass_of_key = [](u32 key) { return mass_of(weight_of_key(key)); };
    auto goal_of = [=](u64 total) {
        u64 goal = (u64)ceil((double)p * (double)total);
        return min(max(goal, 1ull), total);
    };
    Crossing last =
        find_crossing<true, 9>(shared, buffer, slice.count, key_of, mass_of_key, goal_of);
    if (last.key == NONE) return;
    filters.weight_cut = last.key;
    u64 each = mass_of_key(last.key);
    u64 wanted = (last.rest + each - 1) / each;
    if (wanted * each >= last.inside) return;
    Place place = find_place(
        shared, shared.part_amount[0], slice.count,
        [&](u32 i) { return key_of(i) == last.key ? 1ull : 0ull; }, [=](u64) { return wanted; });
    if (threadIdx.x == 0) shared.tie_end = place.is_in_later_part ? slice.count : 0;
    __syncthreads();
    if (place.found != NONE) shared.tie_end = place.found + 1;
    __syncthreads();
    filters.tie_end = shared.tie_end;
}

/// In [0, 1), with 53 random bits.
DEVICE double uniform(const SampleRow &row) {
    Vec16 place = {(u32)row.position, (u32)(row.position >> 32), row.choice, 0};
    Vec16 words = philox(place, row.seed);
    u64 bits = ((u64)words.word[1] << 32 | words.word[0]) >> 11;
    return (double)bits / 9007199254740992.0;
}

DEVICE void write_id(const SampleParams &p, u32 row, i32 id) {
    p.ids[row] = id;
    if (p.host_ids) p.host_ids[row] = id;
}

DEVICE void draw(Shared &shared, const SampleParams &p, const SampleRow &row, const Slice &slice) {
    Filters filters = {NONE, NONE, slice.count, row.least_score};
    u32 buffer = 0;
    if (row.top_k > 0) filters.distance_cut = top_k(shared, buffer, slice, row.top_k);
    if (row.top_p < 1.0f) top_p(shared, buffer, slice, row.top_p, filters);

    Place place = find_place(
        shared, shared.part_amount[1], slice.count,
        [&](u32 i) { return mass_after_all(slice, filters, i); },
        [&](u64 total) {
            u64 passed = (u64)(uniform(row) * (double)total);
            return min(passed + 1, total);
        });
    u32 index = blockIdx.x / PARTS;
    if (place.found != NONE) write_id(p, index, slice.first_id + place.found);
    if (place.total == 0 && my_part() == 0 && threadIdx.x == 0) write_id(p, index, -1);
}

/// Grid: rows of parameters, `PARTS` blocks each.
KERNEL CLUSTER __launch_bounds__(THREADS, 2) sample(const __grid_constant__ SampleParams p) {
    extern __shared__ float4 slice_memory[];
    __shared__ Shared shared;
    let_next_start();
    wait_for_inputs();
    u32 index = blockIdx.x / PARTS;
    SampleRow row = p.rows[index];
    if (row.mode == SKIP) return;

    Slice slice = slice_of(p, row.logits_row, (float *)slice_memory);
    bool keeps = PARTS > 1 && row.mode == DRAW;
    if (row.mode == DRAW) {
        clear_histogram(shared, 0);
        clear_histogram(shared, 1);
    }
    u64 rank = keeps ? read_slice<true>(slice) : read_slice<false>(slice);
    u64 best = best_of_row(shared, rank);
    slice.best = score_of(best);
    // A score may be infinite, to force its token; no distribution is left then.
    if (row.mode == GREEDY || best == 0 || slice.best == INFINITE) {
        if (my_part() == 0 && threadIdx.x == 0) write_id(p, index, best == 0 ? -1 : id_of(best));
    } else {
        slice.temperature = row.temperature;
        if (keeps) {
            for (u32 i = threadIdx.x; i < slice.count; i += THREADS) {
                slice.kept[i] = slice.scored(slice.kept[i]);
            }
            __syncthreads();
        }
        draw(shared, p, row, slice);
    }
    // Shared memory must outlive those who read it from other parts.
    sync_parts();
}
