// ptx: any
//
// Where norms of values count, what a chunk adds to a score is its weight times the norm, divided
// by the sum of all slots' in the head, so that all scores together grow by one for each row. A
// block has one head of one sequence; its sum is made in one order.

#include "slots.cuh"

#include "slot_chunk.cuh"

static const int BLOCK = 1024;

/// The sum over a block, of which every thread gets the result.
DEVICE double block_sum(double x) {
    __shared__ double of_warp[BLOCK / 32];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = 0.0;
    for (int warp = 0; warp < BLOCK / 32; warp++) sum += of_warp[warp];
    return sum;
}

KERNEL __launch_bounds__(BLOCK) slot_norm_weights(const __grid_constant__ SlotChunkParams p) {
    wait_for_inputs();
    let_next_start();
    const i32 kv_head = blockIdx.x, in_launch = blockIdx.y, number = p.first_seq + in_launch;
    const Rule &rule = p.rows.rules[number];
    if (!adds_to_scores(rule)) return;
    const SlotSeq seq = find_seq(p, number);
    const u64 head = (u64)in_launch * p.layer.kv_heads + kv_head;
    const float *weights = p.weights + head * p.weights_stride;
    const auto counted = [&](i32 slot, const SlotLocation &location) {
        return weights[slot] * *note_at(p.layer.value_norms, location);
    };
    double total = 0.0;
    for (i32 slot = threadIdx.x; rule.by_value_norm && slot < seq.filled; slot += BLOCK)
        total += counted(slot, locate_slot(p.layer, seq.table, kv_head, slot));
    total = block_sum(total);
    // Norms that are all zero tell nothing, and the weights count as they are.
    const bool by_norm = total > 0.0;
    const float scale = by_norm ? (float)(seq.live / total) : 1.0f;
    for (i32 slot = threadIdx.x; slot < seq.filled; slot += BLOCK) {
        const SlotLocation location = locate_slot(p.layer, seq.table, kv_head, slot);
        const float weight = by_norm ? counted(slot, location) * scale : weights[slot];
        *note_at(p.layer.scores, location) += weight;
    }
}
