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
#include "row_parts.cuh"
#include "orders.cuh"

constexpr u32 THREADS = 512;
constexpr u32 WARPS = THREADS / 32;
/// Neighbouring scores that a thread works on at a time, so that their latencies overlap.
constexpr u32 BATCH = 4;
/// Of a histogram, four for each thread; and of a group of them.
constexpr u32 BINS = 4 * THREADS, GROUP_BINS = 32, GROUPS = BINS / GROUP_BINS;
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
    u32 vocab;
    u32 logits_stride;
};

/// One of several amounts: the one where their running sum reaches a goal.
struct Found {
    u32 index;
    /// The sum before it, and the amount itself.
    u64 before, inside;
};

struct Shared {
    /// Two histograms of 64-bit amounts, and the sums of their groups.
    alignas(16) u32 low[2][BINS];
    alignas(16) u32 high[2][BINS];
    u64 groups[2][GROUPS];
    u64 warp_best[WARPS];
    u64 warp_amount[WARPS];
    u64 part_best;
    /// Of this part: ties, then what is drawn from.
    u64 part_amount[2];
    Found group, bin;
    u32 tie_end;
};

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
    /// Turns the kept logits into scores, and fills up the last batch.
    DEVICE void score_kept() const {
        for (u32 start = BATCH * threadIdx.x; start < count; start += BATCH * THREADS) {
            Vec16 x = load16(kept + start);
#pragma unroll
            for (u32 j = 0; j < BATCH; ++j) {
                float score = start + j < count ? scored(__uint_as_float(x.word[j])) : -INFINITE;
                x.word[j] = __float_as_uint(score);
            }
            store16(kept + start, x);
        }
    }
    /// The scores from `start` on, which is a multiple of `BATCH`.
    DEVICE void load_batch(float out[BATCH], u32 start) const {
        if (PARTS > 1) {
            Vec16 x = load16(kept + start);
#pragma unroll
            for (u32 j = 0; j < BATCH; ++j) out[j] = __uint_as_float(x.word[j]);
        } else {
#pragma unroll
            for (u32 j = 0; j < BATCH; ++j) {
                out[j] = start + j < count ? score(start + j) : -INFINITE;
            }
        }
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
    u32 lane = threadIdx.x % 32;
    rank = warp_best(rank);
    if (lane == 0) shared.warp_best[threadIdx.x / 32] = rank;
    __syncthreads();
    if (threadIdx.x < 32) {
        rank = warp_best(lane < WARPS ? shared.warp_best[lane] : 0);
        if (lane == 0) shared.part_best = rank;
    }
    sync_parts();
    return warp_best(load_from_parts(&shared.part_best));
}

/// More than rounding makes of a score that goes through a weight and back.
constexpr float SCORE_SLACK = 1e-4f;

/// What the filters leave.
struct Filters {
    /// Lower scores are dropped. What is not a number is not above it either.
    float least_score;
    /// By weight: tokens with a higher key are dropped, and of those with this one
    u32 last_key;
    /// the ones from this place of the slice on.
    u32 tie_end;

    DEVICE u64 mass(float score, u32 i) const {
        u32 key = ByWeight::key(score);
        bool stays = key < last_key || (key == last_key && i < tie_end);
        return stays && key != NONE ? ByWeight::amount(key) : 0;
    }
};

// ---- Running amounts.

/// The sum up to this lane's.
DEVICE u64 warp_scan(u64 amount) {
    u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 step = 1; step < 32; step *= 2) {
        u64 other = __shfl_up_sync(~0u, amount, step);
        if (lane >= step) amount += other;
    }
    return amount;
}

/// The sum before this thread's, and the block's. One barrier; another must lie between two uses.
DEVICE u64 block_scan(Shared &shared, u64 amount, u64 &total) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 sum = warp_scan(amount);
    if (lane == 31) shared.warp_amount[warp] = sum;
    __syncthreads();
    u64 warps = warp_scan(lane < WARPS ? shared.warp_amount[lane] : 0);
    total = __shfl_sync(~0u, warps, 31);
    u64 before = __shfl_sync(~0u, warps, warp == 0 ? 0 : warp - 1);
    return sum - amount + (warp == 0 ? 0 : before);
}

/// Looks among `count` amounts, each the sum of what `load` gives for every part. `goal_of` is
/// given the sum of all. Returns the goal, or 0 if it is not reached.
template <typename Load, typename GoalOf>
DEVICE u64 find_among(Shared &shared, Found &found, u32 count, Load load, GoalOf goal_of) {
    u32 index = threadIdx.x / PARTS, part = threadIdx.x % PARTS;
    u64 amount = index < count ? load(index, part) : 0;
#pragma unroll
    for (u32 step = PARTS / 2; step > 0; step /= 2) amount += __shfl_xor_sync(~0u, amount, step);
    if (part != 0) amount = 0;
    u64 total;
    u64 before = block_scan(shared, amount, total);
    u64 goal = goal_of(total);
    if (goal > total) goal = 0;
    if (before < goal && goal <= before + amount) found = {index, before, amount};
    __syncthreads();
    return goal;
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

DEVICE void sum_groups(Shared &shared, u32 buffer) {
    __syncthreads();
    Vec16 low = load16(&shared.low[buffer][4 * threadIdx.x]);
    Vec16 high = load16(&shared.high[buffer][4 * threadIdx.x]);
    u64 sum = 0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) sum += (u64)high.word[i] << 32 | low.word[i];
#pragma unroll
    for (u32 step = GROUP_BINS / 8; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    u32 first = 4 * threadIdx.x;
    if (first % GROUP_BINS == 0) shared.groups[buffer][first / GROUP_BINS] = sum;
}

/// Where a running amount over rising keys first reaches its goal.
struct Crossing {
    /// Or its leading bits; `NONE` if the goal is not reached.
    u32 key;
    /// Of the goal, what lies at this key.
    u64 rest;
    /// All that lies at this key.
    u64 inside;
};

/// The bin where the running amount, over the bins of all parts, reaches the goal: first its group,
/// then the bin in it, for reading whole histograms of other parts takes longest of all.
template <typename GoalOf>
DEVICE Crossing find_bin(Shared &shared, u32 buffer, GoalOf goal_of) {
    auto load_group = [&](u32 group, u32 part) {
        return load_from_part(&shared.groups[buffer][group], part);
    };
    u64 goal = find_among(shared, shared.group, GROUPS, load_group, goal_of);
    if (goal == 0) return {NONE, 0, 0};
    u32 first = GROUP_BINS * shared.group.index;
    u64 rest = goal - shared.group.before;
    auto load_bin = [&](u32 bin, u32 part) {
        u64 high = load_from_part(&shared.high[buffer][first + bin], part);
        return high << 32 | load_from_part(&shared.low[buffer][first + bin], part);
    };
    find_among(shared, shared.bin, GROUP_BINS, load_bin, [=](u64) { return rest; });
    return {first + shared.bin.index, rest - shared.bin.before, shared.bin.inside};
}

/// Adds the slice's scores between two bounds to a histogram: those whose key, without its last
/// `shift` bits, is one of the `width` from `first` on.
template <typename Order>
DEVICE void count_scores(Shared &shared, u32 buffer, const Slice &slice, float least, float most,
                         u32 shift, u32 first, u32 width) {
    for (u32 start = BATCH * threadIdx.x; start < slice.count; start += BATCH * THREADS) {
        float score[BATCH];
        slice.load_batch(score, start);
        float best = fmaxf(fmaxf(score[0], score[1]), fmaxf(score[2], score[3]));
        if (!(best >= least)) continue;
        u32 key[BATCH];
#pragma unroll
        for (u32 j = 0; j < BATCH; ++j) {
            bool is_near = score[j] >= least && score[j] <= most;
            key[j] = is_near ? Order::key(score[j]) : NONE;
        }
#pragma unroll
        for (u32 j = 0; j < BATCH; ++j) {
            u32 bin = (key[j] >> shift) - first;
            if (key[j] == NONE || bin >= width) continue;
            if (Order::IS_MASS) {
                add_mass(shared, buffer, bin, Order::amount(key[j]));
            } else {
                atomicAdd(&shared.low[buffer][bin], 1u);
            }
        }
    }
}

/// Finds it among the scores from `least` on, in three passes over ever fewer of them.
///
/// Passes take turns with the two histograms, for other parts may still read the last one.
/// `buffer` says whose turn it is; that one is clear.
template <typename Order, typename GoalOf>
DEVICE Crossing find_crossing(Shared &shared, u32 &buffer, const Slice &slice, float least,
                              GoalOf goal_of) {
    float most = 0.0f;
    Crossing crossing = {0, 0, 0};
#pragma unroll 1
    for (u32 pass = 0; pass < 3; ++pass) {
        u32 shift = (2 - pass) * Order::STEP;
        u32 first = crossing.key << Order::STEP, width = pass == 0 ? BINS : 1u << Order::STEP;
        count_scores<Order>(shared, buffer, slice, least, most, shift, first, width);
        sum_groups(shared, buffer);
        sync_parts();
        clear_histogram(shared, 1 - buffer);
        Crossing bin = find_bin(shared, buffer, [&](u64 total) {
            return pass == 0 ? goal_of(total) : crossing.rest;
        });
        buffer = 1 - buffer;
        if (bin.key == NONE) return bin;
        crossing = {first + bin.key, bin.rest, bin.inside};
        most = fminf(most, Order::score(crossing.key << shift) + SCORE_SLACK);
        least = fmaxf(least, Order::score(((crossing.key + 1) << shift) - 1) - SCORE_SLACK);
    }
    return crossing;
}

/// Where a running amount over rising places of the row reaches its goal.
struct Place {
    /// The place in the slice, for the one thread that holds it; `NONE` for all others.
    u32 found;
    bool is_in_later_part;
    u64 total;
};

/// Scores from `least` on have an amount. Each thread sums neighbouring places; their number is
/// odd, so that the threads of a warp read from different banks.
template <typename AmountOf, typename GoalOf>
DEVICE Place find_place(Shared &shared, u64 &part_amount, const Slice &slice, float least,
                        AmountOf amount_of, GoalOf goal_of) {
    u32 lane = threadIdx.x % 32, length = ((slice.count + THREADS - 1) / THREADS) | 1;
    u32 first = min(threadIdx.x * length, slice.count), end = min(first + length, slice.count);
    auto amount_at = [&](u32 i, u32 end) {
        float score = i < end ? slice.score(i) : -INFINITE;
        return score >= least ? amount_of(score, i) : 0;
    };
    u64 amount = 0;
    for (u32 start = first; start < end; start += BATCH) {
#pragma unroll
        for (u32 j = 0; j < BATCH; ++j) amount += amount_at(start + j, end);
    }
    u64 mine;
    u64 before = block_scan(shared, amount, mine);
    if (threadIdx.x == 0) part_amount = mine;
    sync_parts();
    u64 parts = warp_scan(load_from_parts(&part_amount));
    u64 total = __shfl_sync(~0u, parts, 31);
    u64 part_end = __shfl_sync(~0u, parts, my_part());
    before += part_end - mine;

    u64 goal = goal_of(total);
    Place place = {NONE, goal > part_end, total};
    u32 holder = __ffs(__ballot_sync(~0u, before < goal && goal <= before + amount));
    if (holder == 0) return place;
    // The warp of the thread that has it looks at its places side by side.
    before = __shfl_sync(~0u, before, holder - 1);
    first = __shfl_sync(~0u, first, holder - 1);
    end = __shfl_sync(~0u, end, holder - 1);
    for (; first < end; first += 32) {
        u64 sum = before + warp_scan(amount_at(first + lane, end));
        u32 reached = __ffs(__ballot_sync(~0u, sum >= goal));
        if (reached != 0) {
            if (lane == reached - 1) place.found = first + lane;
            break;
        }
        before = __shfl_sync(~0u, sum, 31);
    }
    return place;
}

// ---- The stages.

/// Several may share the last place; all of them stay.
DEVICE void top_k(Shared &shared, u32 &buffer, const Slice &slice, u32 k, Filters &filters) {
    Crossing last = find_crossing<ByScore>(shared, buffer, slice, filters.least_score,
                                           [=](u64) { return (u64)k; });
    if (last.key != NONE) filters.least_score = ByScore::score(last.key);
}

/// A token stays if those before it, heaviest first, hold less than `p` of the mass; of equal ones
/// the lower id comes first.
DEVICE void top_p(Shared &shared, u32 &buffer, const Slice &slice, float p, Filters &filters) {
    Crossing last =
        find_crossing<ByWeight>(shared, buffer, slice, filters.least_score, [=](u64 total) {
            u64 goal = (u64)ceil((double)p * (double)total);
            return min(max(goal, 1ull), total);
        });
    if (last.key == NONE) return;
    filters.last_key = last.key;
    u64 each = ByWeight::amount(last.key);
    u64 wanted = (last.rest + each - 1) / each;
    if (wanted * each < last.inside) {
        auto is_tie = [=](float score, u32) { return ByWeight::key(score) == last.key ? 1ull : 0; };
        Place place = find_place(shared, shared.part_amount[0], slice, filters.least_score, is_tie,
                                 [=](u64) { return wanted; });
        if (threadIdx.x == 0) shared.tie_end = place.is_in_later_part ? slice.count : 0;
        __syncthreads();
        if (place.found != NONE) shared.tie_end = place.found + 1;
        __syncthreads();
        filters.tie_end = shared.tie_end;
    }
    float least_kept = ByWeight::score(last.key) - SCORE_SLACK;
    filters.least_score = fmaxf(filters.least_score, least_kept);
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
}

DEVICE void draw(Shared &shared, const SampleParams &p, const SampleRow &row, const Slice &slice) {
    Filters filters = {LEAST_SCORE, NONE, slice.count};
    u32 buffer = 0;
    if (row.top_k > 0) top_k(shared, buffer, slice, row.top_k, filters);
    if (row.top_p < 1.0f) top_p(shared, buffer, slice, row.top_p, filters);
    filters.least_score = fmaxf(filters.least_score, row.least_score);

    auto mass = [=](float score, u32 i) { return filters.mass(score, i); };
    Place place = find_place(shared, shared.part_amount[1], slice, filters.least_score, mass,
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
            slice.score_kept();
            __syncthreads();
        }
        draw(shared, p, row, slice);
    }
    // Shared memory must outlive those who read it from other parts.
    sync_parts();
}
