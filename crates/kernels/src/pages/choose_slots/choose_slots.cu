// ptx: any
//
// Slots for the live rows of a step, in every head of every layer: the rule of choose_slots/mod.rs.
//
// A block has a head of one layer of one sequence, or all heads: where errors are joined with
// scores over all of them, and where there are blocks enough. One live row, a decode step: each
// head's lowest slot is found by some warps of its own. More: head by head the whole block finds,
// digit by digit, up to which key the lowest reach, and sorts these.
//
// A slot's key is the rank of its selection, then its number: no two are equal, so nothing depends
// on the order in which threads come.
//
// Roofline: bound by memory for one live row (8 to 16 bytes a slot and head).

#include "slots.cuh"

static const int THREADS = 512;
static const int WARPS = THREADS / 32;
/// Slots that are sorted at once.
static const int SORTED = 4096;
static const u64 NO_KEY = ~0ull;

struct ChooseSlotsParams {
    /// At the first layer.
    LayerSlots layer;
    LiveRows rows;
    /// i32 [layers, tokens, kv_heads]
    i32 *slots;
    /// Bytes from one layer of a page to the next.
    u64 layer_bytes;
    i32 tokens;
};

/// One layer of one sequence.
struct Table {
    LayerSlots layer;
    const i32 *pages;
    Rule rule;
    i32 first_row, live;
    /// Those of the block.
    i32 first_head, heads;
    /// i32 [live, kv_heads]
    i32 *slots;
};

/// From the smallest of some numbers to the largest.
struct Span {
    float least, most;
};
/// Of scores by age, and of errors.
struct Spans {
    Span scores, errors;
};

// ---- What decides. Without fused operations: the host rounds as often, and ties must stay ties.

/// 0 for the smallest, 1 for the largest; equal numbers tell nothing.
DEVICE float half_of(const Span &span, float x) {
    const float length = span.most - span.least;
    return length > 0.0f ? __fdiv_rn(x - span.least, length) : 0.0f;
}

/// What is known of a slot.
struct Candidate {
    i32 position;
    float score, error;
};

/// A position of no candidate.
static const i32 NOWHERE = -1;

DEVICE Candidate candidate_at(const Table &table, const SlotLocation &location) {
    const bool is_joined = table.rule.score_fraction != 1.0f;
    return {*position_at(table.layer, location), *note_at(table.layer.scores, location),
            is_joined ? *note_at(table.layer.errors, location) : 0.0f};
}
DEVICE bool may_leave(const Rule &rule, const Candidate &candidate) {
    const i32 position = candidate.position;
    return rule.protected_tokens <= position && 0 <= position &&
           position < rule.past - rule.grace;
}
DEVICE float score_of(const Rule &rule, const Candidate &candidate) {
    if (!rule.per_age) return candidate.score;
    const i32 since = max(candidate.position, rule.first_chunk - 1);
    return __fdiv_rn(candidate.score, (float)(rule.past - since));
}

/// Orders as `f32::total_cmp` does.
DEVICE u32 rank_of(float x) {
    const u32 bits = __float_as_uint(x);
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

DEVICE u32 rank_of(const Rule &rule, const Spans &spans, const Candidate &candidate) {
    const float score = score_of(rule, candidate), fraction = rule.score_fraction;
    if (fraction == 1.0f) return rank_of(score);
    const float lost = __fmul_rn((fraction - 1.0f) / 2.0f, half_of(spans.errors, candidate.error));
    const float kept = __fmul_rn(fraction, half_of(spans.scores, score));
    return rank_of(__fadd_rn(__fadd_rn(kept, lost), 1.0f - fraction));
}

/// Calls `visit(candidate, slot)` for every `step`-th slot of a head from `first` on that may
/// leave.
template <typename Visit>
DEVICE void for_candidates(const Table &table, i32 kv_head, i32 first, i32 step, Visit visit) {
    const int at_once = 4;
    const SlotWalk by = walk_to(table.layer, step);
    SlotWalk at = walk_to(table.layer, first);
    for (i32 start = first; start < table.rule.slots; start += at_once * step) {
        Candidate candidates[at_once];
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            candidates[i].position = NOWHERE;
            if (start + i * step < table.rule.slots) {
                const SlotLocation location = locate_at(table.layer, table.pages, kv_head, at);
                candidates[i] = candidate_at(table, location);
            }
            at = walk_on(table.layer, at, by);
        }
#pragma unroll
        for (int i = 0; i < at_once; i++)
            if (may_leave(table.rule, candidates[i])) visit(candidates[i], start + i * step);
    }
}

DEVICE Span joined(Span a, Span b) {
    return {fminf(a.least, b.least), fmaxf(a.most, b.most)};
}
DEVICE Span warp_span(Span span) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        span = joined(span, {__shfl_xor_sync(~0u, span.least, step),
                             __shfl_xor_sync(~0u, span.most, step)});
    return span;
}

/// Over what may leave in all heads.
DEVICE Spans spans_of(const Table &table) {
    __shared__ Spans of_warps[WARPS];
    const Span empty = {-MINUS_INFINITY, MINUS_INFINITY};
    Spans spans = {empty, empty};
    const i32 first = table.rule.protected_tokens + threadIdx.x;
    for (i32 kv_head = 0; kv_head < table.layer.kv_heads; kv_head++)
        for_candidates(table, kv_head, first, THREADS, [&](const Candidate &own, i32) {
            const float score = score_of(table.rule, own);
            spans.scores = joined(spans.scores, {score, score});
            spans.errors = joined(spans.errors, {own.error, own.error});
        });
    of_warps[threadIdx.x / 32] = {warp_span(spans.scores), warp_span(spans.errors)};
    __syncthreads();
    spans = {empty, empty};
    for (int warp = 0; warp < WARPS; warp++) {
        spans.scores = joined(spans.scores, of_warps[warp].scores);
        spans.errors = joined(spans.errors, of_warps[warp].errors);
    }
    return spans;
}

/// Gives a live row its slot.
DEVICE void take(const Table &table, i32 kv_head, i32 row, i32 slot) {
    table.slots[row * table.layer.kv_heads + kv_head] = slot;
    const SlotLocation location = locate_slot(table.layer, table.pages, kv_head, slot);
    *position_at(table.layer, location) = table.rule.past + row;
    if (table.layer.scores) *note_at(table.layer.scores, location) = 0.0f;
}

// ---- One live row.

DEVICE u64 warp_least(u64 key) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) key = min(key, __shfl_xor_sync(~0u, key, step));
    return key;
}

/// Every head's lowest slot. A head has `team` warps.
DEVICE void choose_one(const Table &table, const Spans &spans) {
    __shared__ u64 least[WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const i32 end = table.first_head + table.heads;
    const int team = max(1, WARPS / table.heads), teams = WARPS / team;
    for (i32 first = table.first_head; first < end; first += teams) {
        const i32 kv_head = first + warp / team;
        u64 key = NO_KEY;
        if (kv_head < end && warp < teams * team) {
            const i32 start = table.rule.protected_tokens + warp % team * 32 + lane;
            for_candidates(table, kv_head, start, team * 32, [&](const Candidate &own, i32 slot) {
                const u64 other = (u64)rank_of(table.rule, spans, own) << 32 | (u32)slot;
                key = min(key, other);
            });
        }
        least[warp] = warp_least(key);
        __syncthreads();
        if (threadIdx.x < teams && first + (i32)threadIdx.x < end) {
            u64 lowest = NO_KEY;
            for (int i = 0; i < team; i++) lowest = min(lowest, least[threadIdx.x * team + i]);
            take(table, first + threadIdx.x, 0, (i32)(u32)lowest);
        }
        __syncthreads();
    }
}

// ---- Several live rows.

/// Calls `visit(key)` for every slot of the head that may leave and whose key is above `after`.
template <typename Visit>
DEVICE void for_keys(const Table &table, const Spans &spans, i32 kv_head, u64 after, bool is_first,
                     Visit visit) {
    const i32 start = table.rule.protected_tokens + threadIdx.x;
    for_candidates(table, kv_head, start, THREADS, [&](const Candidate &own, i32 slot) {
        const u64 key = (u64)rank_of(table.rule, spans, own) << 32 | (u32)slot;
        if (is_first || after < key) visit(key);
    });
}

/// The digit at which the counts of lower ones and its own reach what was asked. Fills the words
/// that one load takes: none reads a neighbour that is written meanwhile.
struct alignas(16) FoundDigit {
    i32 digit;
    /// How many keys have it, and how many of them are among the lowest.
    i32 keys, lowest;
};

/// One warp finds it.
DEVICE void find_digit(const i32 counts[256], i32 count, FoundDigit &found, int lane) {
    i32 own = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) own += counts[8 * lane + i];
    i32 up_to = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const i32 lower = __shfl_up_sync(~0u, up_to, step);
        if (step <= lane) up_to += lower;
    }
    i32 before = up_to - own;
    if (count <= before || up_to < count) return;
    int digit = 8 * lane;
    while (before + counts[digit] < count) before += counts[digit++];
    found = {digit, counts[digit], count - before};
}

/// A key that `count` of those above `after` do not exceed, found by its digits from the highest
/// on.
DEVICE u64 bound_of(const Table &table, const Spans &spans, i32 kv_head, u64 after, bool is_first,
                    i32 count) {
    __shared__ i32 counts[256];
    __shared__ FoundDigit found;
    u64 prefix = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        const u64 known = shift == 56 ? 0 : ~0ull << (shift + 8);
        for (int i = threadIdx.x; i < 256; i += THREADS) counts[i] = 0;
        __syncthreads();
        for_keys(table, spans, kv_head, after, is_first, [&](u64 key) {
            if ((key & known) != prefix) return;
            // Scores have few exponents: lanes with the same digit count together.
            const u32 digit = key >> shift & 255;
            const u32 same = __match_any_sync(__activemask(), digit);
            if (__ffs(same) - 1 == threadIdx.x % 32) atomicAdd(&counts[digit], __popc(same));
        });
        __syncthreads();
        if (threadIdx.x < 32) find_digit(counts, count, found, threadIdx.x);
        __syncthreads();
        prefix |= (u64)found.digit << shift;
        count = found.lowest;
        if (count == found.keys) return prefix | ~(~0ull << shift);
    }
    return prefix;
}

/// Ascending; `keys` has room for the next power of two.
DEVICE void sort(u64 *keys, i32 count) {
    i32 padded = 1;
    while (padded < count) padded *= 2;
    for (i32 i = count + threadIdx.x; i < padded; i += THREADS) keys[i] = NO_KEY;
    for (i32 run = 2; run <= padded; run *= 2) {
        for (i32 step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (i32 i = threadIdx.x; i < padded / 2; i += THREADS) {
                const i32 low = i / step * 2 * step + i % step, high = low + step;
                const u64 a = keys[low], b = keys[high];
                const bool goes_up = (low & run) == 0;
                if ((b < a) == goes_up) {
                    keys[low] = b;
                    keys[high] = a;
                }
            }
        }
    }
    __syncthreads();
}

/// The lowest slots of a head, in their order, some at a time.
DEVICE void choose_many(const Table &table, const Spans &spans, i32 kv_head) {
    __shared__ u64 keys[SORTED];
    __shared__ i32 gathered;
    u64 after = 0;
    for (i32 row = 0; row < table.live; row += SORTED) {
        const i32 count = min(SORTED, table.live - row);
        const u64 last = bound_of(table, spans, kv_head, after, row == 0, count);
        if (threadIdx.x == 0) gathered = 0;
        __syncthreads();
        for_keys(table, spans, kv_head, after, row == 0, [&](u64 key) {
            if (key <= last) keys[atomicAdd(&gathered, 1)] = key;
        });
        sort(keys, count);
        // Their positions put them out of the candidates, which are chosen by `after` anyway.
        for (i32 i = threadIdx.x; i < count; i += THREADS)
            take(table, kv_head, row + i, (i32)(u32)keys[i]);
        after = last;
        __syncthreads();
    }
}

// ---- Where no score decides.

DEVICE i32 slot_in_order(const Rule &rule, i32 live, i32 row) {
    const i32 position = rule.past + row;
    if (rule.kind == RECENT && rule.slots <= position)
        return rule.protected_tokens +
               (position - rule.slots) % (rule.slots - rule.protected_tokens);
    if (rule.kind != SCORED || rule.past < rule.slots) return position;
    const i32 room = rule.slots - rule.grace - live;
    return max(min(rule.initial, room), rule.protected_tokens) + row;
}

/// A first chunk that filled the cache has left no scores to decide by.
DEVICE bool scores_decide(const Rule &rule) {
    const bool is_first = rule.past == rule.slots && rule.first_chunk == rule.slots;
    return rule.kind == SCORED && rule.slots <= rule.past && !is_first;
}

/// Grid: layers, sequences, and all kv heads or one.
KERNEL __launch_bounds__(THREADS, 2) choose_slots(const __grid_constant__ ChooseSlotsParams p) {
    wait_for_inputs();
    let_next_start();
    const i32 index = blockIdx.x, seq = blockIdx.y;
    Table table = {p.layer, table_of(p.rows, seq), p.rows.rules[seq]};
    if (table.rule.past < 0) return;
    const i32 kv_heads = p.layer.kv_heads;
    table.layer.pages += index * p.layer_bytes;
    table.first_row = first_row_of(p.rows, seq);
    table.live = live_rows_of(p.rows, seq);
    table.heads = kv_heads / gridDim.z;
    table.first_head = blockIdx.z * table.heads;
    table.slots = p.slots + ((u64)index * p.tokens + table.first_row) * kv_heads;
    if (!scores_decide(table.rule)) {
        for (i32 i = threadIdx.x; i < table.live * table.heads; i += THREADS) {
            const i32 row = i / table.heads;
            take(table, table.first_head + i % table.heads, row,
                 slot_in_order(table.rule, table.live, row));
        }
        return;
    }
    Spans spans = {};
    if (table.rule.score_fraction != 1.0f) spans = spans_of(table);
    if (table.live == 1) return choose_one(table, spans);
    for (i32 head = 0; head < table.heads; head++)
        choose_many(table, spans, table.first_head + head);
}
