// ptx: any
//
// Attention over slots in every format, for heads up to 256, and what it adds to scores: for what
// the tensor-core kernels do not take. All arithmetic is in f32, with the softmax's exponential to
// its last digits.
//
// See plain_softmax.cuh, which has what it shares with plain.cu; a key of it is a slot here.
// `slot_weights` then has 32 slots of one kv head of a sequence, whose weights it computes again
// from the largest score and the total of each row. Which slots a warp sums in which order follows
// from their numbers alone. Keys that are rotated on read are so here, number by number.
//
// Roofline: far from it. A key is read again for every head and row, out of the caches.

#include "slots.cuh"

#include "softmax_stats.cuh"

#include "plain_softmax.cuh"

#include "heads.cuh"
#include "slot_step.cuh"

/// Its `rope` is null where only protected keys are re-rotated: they see the re-rotated queries.
struct SlotPlainParams : SlotStep {
    /// The grid's first sequence.
    i32 first_seq;
};

DEVICE i32 heads_of(const SlotPlainParams &p) {
    return p.layer.kv_heads * p.group;
}
DEVICE const float *query_of(const SlotPlainParams &p, i32 row, i32 head, bool is_rerotated) {
    return queries_of(p, row) + (is_rerotated ? heads_of(p) + head : head) * p.layer.dim;
}
DEVICE Stats *stats_of(const SlotPlainParams &p, i32 row, i32 head) {
    return (Stats *)stats_at(p, row, head);
}

DEVICE float scale_of(const SlotPlainParams &p, i32 seq) {
    return p.rope.inv_freqs ? p.rope.scales[seq] : p.scale;
}

/// Some slots of a head, as the lanes of a warp hold them.
struct Slots {
    SlotLocation location[KEYS];
    /// -1 behind the last slot.
    i32 position[KEYS];
};

DEVICE Slots slots_from(const SlotPlainParams &p, const i32 *table, i32 kv_head, i32 start,
                        i32 filled, int lane) {
    const i32 own = min(start + lane % KEYS, filled - 1);
    const SlotLocation location = locate_slot(p.layer, table, kv_head, own);
    const i32 position = *position_at(p.layer, location);
    Slots slots;
#pragma unroll
    for (int i = 0; i < KEYS; i++) {
        slots.location[i].page = (u8 *)__shfl_sync(~0u, (u64)location.page, i);
        slots.location[i].row = __shfl_sync(~0u, location.row, i);
        slots.position[i] = start + i < filled ? __shfl_sync(~0u, position, i) : -1;
    }
    return slots;
}

DEVICE bool is_visible(const SlotPlainParams &p, i32 position, i32 at) {
    return 0 <= position && position <= at && (p.window == 0 || at - position < p.window);
}

template <int NUMBERS>
DEVICE void load_query(const SlotPlainParams &p, i32 row, i32 head, bool is_rerotated,
                       float q[NUMBERS], int lane) {
    const float *from = query_of(p, row, head, is_rerotated);
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) {
        const i32 number = lane + 32 * i;
        q[i] = number < p.layer.dim ? from[number] : 0.0f;
    }
}

/// One number of a key, rotated with its partner. It is not inlined: sines of large
/// angles are long.
__device__ __noinline__ float rotated_number(const LayerSlots &layer, const StoredRow row, float x,
                                            i32 partner, bool is_second, float angle) {
    float other, sine, cosine;
    load_row<1>(layer, layer.keys, row, &other, partner);
    sincosf(angle, &sine, &cosine);
    return rotated(x, other, is_second, cosine, sine);
}

/// A slot's key, for the position of its token.
template <int NUMBERS>
DEVICE void load_key(const SlotPlainParams &p, i32 seq, const SlotLocation &location, i32 position,
                     float key[NUMBERS], int lane) {
    const StoredRow row = stored_row(p.layer.keys, location);
    load_row<NUMBERS>(p.layer, p.layer.keys, row, key, lane);
    const i32 pairs = p.rope.pairs;
    if (!p.rope.inv_freqs) return;
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) {
        const i32 at = lane + 32 * i;
        if (at >= 2 * pairs) continue;
        const bool is_second = p.rope.is_interleaved ? at % 2 == 1 : pairs <= at;
        const i32 apart = p.rope.is_interleaved ? 1 : pairs;
        const i32 partner = is_second ? at - apart : at + apart;
        const i32 pair = p.rope.is_interleaved ? at / 2 : min(at, partner);
        const float angle = __fmul_rn((float)position, p.rope.inv_freqs[seq * pairs + pair]);
        key[i] = rotated_number(p.layer, row, key[i], partner, is_second, angle);
    }
}

/// The score of a slot, which sees the re-rotated query or the other.
template <int NUMBERS>
DEVICE float score(const float q[NUMBERS], const float rerotated[NUMBERS], bool is_rerotated,
                   const float key[NUMBERS], float scale) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) sum += (is_rerotated ? rerotated[i] : q[i]) * key[i];
    return warp_sum(sum) * scale;
}

// ---- Attention.

/// What a block attends with.
template <int NUMBERS> struct Query {
    i32 row, seq, head, kv_head, at;
    float scale;
    /// Slots below see the re-rotated query.
    i32 rerotated_slots;
    bool wants_normed;
    float q[NUMBERS], rerotated[NUMBERS];
};

template <int NUMBERS>
DEVICE void attend(State<NUMBERS> &state, const SlotPlainParams &p, const Query<NUMBERS> &query,
                   const Slots &slots, i32 start, int lane) {
    float s[KEYS];
    float most = state.largest;
#pragma unroll
    for (int i = 0; i < KEYS; i++) {
        s[i] = MINUS_INFINITY;
        if (!is_visible(p, slots.position[i], query.at)) continue;
        float key[NUMBERS];
        load_key<NUMBERS>(p, query.seq, slots.location[i], slots.position[i], key, lane);
        const bool is_rerotated = start + i < query.rerotated_slots;
        s[i] = score<NUMBERS>(query.q, query.rerotated, is_rerotated, key, query.scale);
        most = fmaxf(most, s[i]);
    }
    if (most == MINUS_INFINITY) return;
    raise_largest<NUMBERS>(state, most);
#pragma unroll
    for (int slot = 0; slot < KEYS; slot++) {
        if (s[slot] == MINUS_INFINITY) continue;
        float value[NUMBERS];
        load_row<NUMBERS>(p.layer, p.layer.values,
                          stored_row(p.layer.values, slots.location[slot]), value, lane);
        const float weight = add_value<NUMBERS>(state, s[slot], value);
        if (query.wants_normed)
            state.normed += weight * *note_at(p.layer.value_norms, slots.location[slot]);
    }
}

template <int NUMBERS> DEVICE void slot_attention(const SlotPlainParams &p) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_inputs();
    let_next_start();
    Query<NUMBERS> query;
    query.row = p.first_row + blockIdx.y;
    query.head = blockIdx.x;
    query.kv_head = query.head / p.group;
    const i32 seq = seq_of_row(p.rows, query.row);
    const Rule rule = p.rows.rules[seq];
    const u64 at = ((u64)query.row * heads_of(p) + query.head) * p.layer.dim;
    const OutHead out = {p.out, p.out_type, at, p.layer.dim};
    if (rule.past < 0) return out.write_zeros();
    query.seq = seq;
    query.scale = scale_of(p, seq);
    query.at = rule.past + query.row - first_row_of(p.rows, seq);
    query.rerotated_slots = p.has_rerotated ? rule.protected_tokens : 0;
    query.wants_normed = adds_to_scores(rule) && rule.by_value_norm;
    load_query<NUMBERS>(p, query.row, query.head, false, query.q, lane);
    if (p.has_rerotated) load_query<NUMBERS>(p, query.row, query.head, true, query.rerotated, lane);
    const i32 filled = filled_slots(rule, live_rows_of(p.rows, seq));
    const i32 *table = table_of(p.rows, seq);
    State<NUMBERS> state = empty_state<NUMBERS>();
    for (i32 start = warp * KEYS; start < filled; start += ROUND) {
        const Slots slots = slots_from(p, table, query.kv_head, start, filled, lane);
        attend<NUMBERS>(state, p, query, slots, start, lane);
    }
    const Stats all = merge_warps<NUMBERS>(state, out, warp, lane);
    if (threadIdx.x == 0) *stats_of(p, query.row, query.head) = all;
}

// ---- Weights.

/// Of four slots, summed over rows and the heads of the group.
template <int NUMBERS>
DEVICE void weigh(float weights[KEYS], const SlotPlainParams &p, i32 seq, const Slots &slots,
                  i32 start, i32 kv_head, i32 live, int lane) {
    const Rule rule = p.rows.rules[seq];
    const i32 first_row = first_row_of(p.rows, seq);
    const float scale = scale_of(p, seq);
    float keys[KEYS][NUMBERS];
    i32 first = live, end = 0;
#pragma unroll
    for (int i = 0; i < KEYS; i++) {
        weights[i] = 0.0f;
        load_key<NUMBERS>(p, seq, slots.location[i], slots.position[i], keys[i], lane);
        if (slots.position[i] < 0) continue;
        const i32 since = slots.position[i] - rule.past;
        first = min(first, max(0, since));
        end = max(end, p.window > 0 ? min(live, since + p.window) : live);
    }
    const i32 rerotated_slots = p.has_rerotated ? rule.protected_tokens : 0;
    for (i32 i = first * p.group; i < end * p.group; i++) {
        const i32 row = first_row + i / p.group, head = kv_head * p.group + i % p.group;
        const Stats stats = *stats_of(p, row, head);
        float q[NUMBERS], rerotated[NUMBERS];
        load_query<NUMBERS>(p, row, head, false, q, lane);
        if (start < rerotated_slots) load_query<NUMBERS>(p, row, head, true, rerotated, lane);
#pragma unroll
        for (int slot = 0; slot < KEYS; slot++) {
            const bool is_rerotated = start + slot < rerotated_slots;
            const float s = score<NUMBERS>(q, rerotated, is_rerotated, keys[slot], scale);
            if (is_visible(p, slots.position[slot], rule.past + i / p.group))
                weights[slot] += expf(s - stats.largest) / stats.total;
        }
    }
#pragma unroll
    for (int i = 0; i < KEYS; i++) weights[i] /= (float)p.group;
}

/// What weights times norms are multiplied by, so that their sum is that of the weights; 0 where
/// all norms are zero.
DEVICE float scale_of_normed(const SlotPlainParams &p, i32 kv_head, i32 first_row, i32 live,
                             int lane) {
    float total = 0.0f;
    for (i32 i = lane; i < live * p.group; i += 32) {
        const i32 head = kv_head * p.group + i % p.group;
        const Stats stats = *stats_of(p, first_row + i / p.group, head);
        total += stats.normed / stats.total;
    }
    total = warp_sum(total) / (float)p.group;
    return total > 0.0f ? (float)live / total : 0.0f;
}

template <int NUMBERS> DEVICE void slot_weights(const SlotPlainParams &p) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_inputs();
    let_next_start();
    const i32 seq = p.first_seq + blockIdx.z, kv_head = blockIdx.y;
    const Rule rule = p.rows.rules[seq];
    if (!adds_to_scores(rule)) return;
    const i32 live = live_rows_of(p.rows, seq), first_row = first_row_of(p.rows, seq);
    const i32 filled = filled_slots(rule, live);
    const i32 start = blockIdx.x * ROUND + warp * KEYS;
    if (filled <= start) return;
    const Slots slots = slots_from(p, table_of(p.rows, seq), kv_head, start, filled, lane);
    float weights[KEYS];
    weigh<NUMBERS>(weights, p, seq, slots, start, kv_head, live, lane);
    const float scale =
        rule.by_value_norm ? scale_of_normed(p, kv_head, first_row, live, lane) : 0.0f;
#pragma unroll
    for (int i = 0; i < KEYS; i++) {
        if (lane != i || filled <= start + i) continue;
        float counted = weights[i];
        if (scale > 0.0f) counted *= *note_at(p.layer.value_norms, slots.location[i]) * scale;
        *note_at(p.layer.scores, slots.location[i]) += counted;
    }
}

/// For heads of up to 128 and 256 numbers. Grid of attention: heads, rows; of weights: groups of
/// `ROUND` slots, kv heads, sequences.
PLAIN_KERNEL(slot_attention_128, SlotPlainParams, slot_attention<4>)
PLAIN_KERNEL(slot_attention_256, SlotPlainParams, slot_attention<8>)
PLAIN_KERNEL(slot_weights_128, SlotPlainParams, slot_weights<4>)
PLAIN_KERNEL(slot_weights_256, SlotPlainParams, slot_weights<8>)
