// What the two kernels of a decode step over slots share. Include slots.cuh and
// softmax_stats.cuh before it.

#include "slot_step.cuh"

struct SlotDecodeParams : SlotStep {
    /// i32 [tokens, kv_heads]: the slots that this step's rows have taken.
    const i32 *slots;
    /// See split_kv.cuh.
    float *partials;
    i32 *arrivals;
    /// What a softmax has made of a slot so far, f16 [rows, kv_heads, kept_slots, group]: in units
    /// of what the largest score was worth then, f32 [rows, kv_heads, kept_slots / 16, group]. Both
    /// have groups filled up to a multiple of 4. Rows are the grid's.
    f16 *kept;
    float *peaks;
    i32 kept_slots;
};

DEVICE Stats *stats_of(const SlotDecodeParams &p, i32 row, i32 head) {
    return (Stats *)stats_at(p, row, head);
}
/// Numbers kept for a slot.
DEVICE i32 kept_heads(const SlotDecodeParams &p) {
    return p.group + 3 & ~3;
}
/// What is kept of a head's first slot, and of its first tile.
DEVICE f16 *kept_of(const SlotDecodeParams &p, i32 row_in_grid, i32 kv_head) {
    const u64 head = (u64)row_in_grid * p.layer.kv_heads + kv_head;
    return p.kept + head * p.kept_slots * kept_heads(p);
}
DEVICE float *peaks_of(const SlotDecodeParams &p, i32 row_in_grid, i32 kv_head) {
    const u64 head = (u64)row_in_grid * p.layer.kv_heads + kv_head;
    return p.peaks + head * (p.kept_slots / 16) * kept_heads(p);
}
