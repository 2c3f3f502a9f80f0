// ptx: any
//
// What single rows have attended to, added to the scores of their slots. slot_decode.cu has kept
// what a slot was worth when it was read; now that every head's largest score and total are known,
// that becomes a weight.
//
// Roofline: bound by memory: 8 bytes a slot for scores, and 2 for each head, most of them still in
// the second-level cache.

#include "slots.cuh"

#include "softmax_stats.cuh"

#include "slot_decode.cuh"

static const int THREADS = 256;
/// Slots of a thread: some runs of neighbours, which lie in one tile.
static const int RUNS = 2;
static const int RUN = 4;
static const int BLOCK_SLOTS = THREADS * RUNS * RUN;
static const int GROUP_MAX = 128;

/// What makes a head's weights, and its part of all weights times norms of values.
struct HeadWeights {
    float largest, factor, normed;
};

DEVICE HeadWeights weights_of(const Stats &stats, i32 group) {
    const float factor = 1.0f / (stats.total * (float)group);
    return {stats.largest, factor, stats.normed * factor};
}

/// What weights times norms are divided by, so that their sum is one; 0 where norms do not count,
/// or are all zero and tell nothing.
DEVICE float sum_of_normed(const HeadWeights *heads, i32 group, bool by_value_norm) {
    float sum = 0.0f;
    for (i32 head = 0; by_value_norm && head < group; head++) sum += heads[head].normed;
    return sum;
}

/// A head of a row, whose slots from `end` on hold no token.
struct Head {
    const i32 *table;
    i32 kv_head, end;
};

DEVICE float *note_of(const SlotDecodeParams &p, const Head &head, u32 notes, i32 slot) {
    return note_at(notes, locate_slot(p.layer, head.table, head.kv_head, slot));
}
/// Whether the notes of a run lie side by side at a multiple of 16 bytes.
DEVICE bool is_whole(const SlotDecodeParams &p, const Head &head, i32 slot) {
    return p.layer.page_slots % RUN == 0 && slot + RUN <= head.end;
}

/// Notes of a run of slots, zeros behind the last.
DEVICE void load_run(const SlotDecodeParams &p, const Head &head, u32 notes, i32 slot,
                     float x[RUN]) {
    if (is_whole(p, head, slot)) return load_four<float>(x, note_of(p, head, notes, slot));
#pragma unroll
    for (int i = 0; i < RUN; i++)
        x[i] = slot + i < head.end ? *note_of(p, head, notes, slot + i) : 0.0f;
}
DEVICE void store_run(const SlotDecodeParams &p, const Head &head, u32 notes, i32 slot,
                      const float x[RUN]) {
    if (is_whole(p, head, slot)) return store_four<float>(note_of(p, head, notes, slot), x);
#pragma unroll
    for (int i = 0; i < RUN; i++)
        if (slot + i < head.end) *note_of(p, head, notes, slot + i) = x[i];
}

/// What four heads have kept of a run.
struct Kept {
    float peaks[4], x[RUN][4];
};

DEVICE Kept load_kept(const SlotDecodeParams &p, i32 kv_head, i32 slot, i32 first) {
    const i32 heads = kept_heads(p);
    Kept run;
    const float *peaks = peaks_of(p, blockIdx.z, kv_head) + (u64)(slot / 16) * heads + first;
    load_four<float>(run.peaks, peaks);
    const f16 *from = kept_of(p, blockIdx.z, kv_head) + (u64)slot * heads + first;
#pragma unroll
    for (int i = 0; i < RUN; i++) load_four<f16>(run.x[i], from + i * heads);
    return run;
}

DEVICE void add_kept(float weights[RUN], const Kept &run, const HeadWeights *heads, i32 count) {
#pragma unroll
    for (int head = 0; head < 4; head++) {
        if (count <= head) continue;
        const float unit =
            exp2_fast(run.peaks[head] - heads[head].largest) * heads[head].factor;
#pragma unroll
        for (int i = 0; i < RUN; i++) weights[i] += run.x[i][head] * unit;
    }
}

/// Grid: groups of `BLOCK_SLOTS` slots, kv heads, rows.
KERNEL __launch_bounds__(THREADS) slot_weigh(const __grid_constant__ SlotDecodeParams p) {
    __shared__ HeadWeights heads[GROUP_MAX];
    const i32 row = p.first_row + blockIdx.z, kv_head = blockIdx.y;
    const i32 start = blockIdx.x * BLOCK_SLOTS + threadIdx.x * RUN;
    // Before the wait: slot_decode writes neither scores nor what says where they are, and lets
    // this kernel start only when all before itself has ended.
    const Rule rule = p.rows.rules[row];
    const Head own = {table_of(p.rows, row), kv_head,
                      adds_to_scores(rule) ? filled_slots(rule, 1) : 0};
    float scores[RUNS][RUN];
#pragma unroll
    for (int i = 0; i < RUNS; i++) {
        const i32 slot = start + i * THREADS * RUN;
        if (slot < own.end) load_run(p, own, p.layer.scores, slot, scores[i]);
    }
    wait_for_inputs();
    let_next_start();
    if (own.end <= (i32)(blockIdx.x * BLOCK_SLOTS)) return;
    if (threadIdx.x < p.group)
        heads[threadIdx.x] =
            weights_of(*stats_of(p, row, kv_head * p.group + threadIdx.x), p.group);
    float weights[RUNS][RUN] = {};
    for (i32 head = 0; head < p.group; head += 4) {
        Kept kept[RUNS];
#pragma unroll
        for (int i = 0; i < RUNS; i++) {
            const i32 slot = min(start + i * THREADS * RUN, p.kept_slots - RUN);
            kept[i] = load_kept(p, kv_head, slot, head);
        }
        if (head == 0) __syncthreads();
#pragma unroll
        for (int i = 0; i < RUNS; i++) add_kept(weights[i], kept[i], heads + head, p.group - head);
    }
    const float normed = sum_of_normed(heads, p.group, rule.by_value_norm);
#pragma unroll
    for (int i = 0; i < RUNS; i++) {
        const i32 slot = start + i * THREADS * RUN;
        if (own.end <= slot) continue;
        float norms[RUN];
        if (normed > 0.0f) load_run(p, own, p.layer.value_norms, slot, norms);
#pragma unroll
        for (int j = 0; j < RUN; j++)
            scores[i][j] += normed > 0.0f ? weights[i][j] * (norms[j] / normed) : weights[i][j];
        store_run(p, own, p.layer.scores, slot, scores[i]);
    }
}
