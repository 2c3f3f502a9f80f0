// What the two kernels of a decode step over slots share. Include slots.cuh and
// softmax_stats.cuh before it.

#include "slot_rerotate.cuh"

struct SlotDecodeParams {
    LayerSlots layer;
    LiveRows rows;
    /// Of sequences all of whose keys are rotated on read.
    ReadRope rope;
    /// f32 [tokens, query_stride]: a row's queries, the re-rotated ones, and from `stats_column` on
    /// its heads' `Stats`.
    float *queries;
    /// i32 [tokens, kv_heads]: the slots that this step's rows have taken.
    const i32 *slots;
    /// See split_kv.cuh.
    float *partials;
    i32 *arrivals;
    /// What a softmax has made of a slot so far, f16 [rows, kv_heads, kept_slots, group]: in units
    /// of what the largest score was worth then, f32 [rows, kv_heads, kept_slots / 16, group]. Both
    /// have groups filled up to a multiple of 4.
    f16 *kept;
    float *peaks;
    /// f32 or bf16 [rows, heads, dim]
    void *out;
    /// `first_row`: the row of the grid's first blocks, whose partials and so on are the first.
    i32 first_row, query_stride, stats_column, group, window, has_rerotated, out_is_f32;
    i32 kept_slots;
    /// The softmax's scale times log2(e), where sequences have none of their own.
    float scale;
};

DEVICE float *queries_of(const SlotDecodeParams &p, i32 row) {
    return p.queries + (u64)row * p.query_stride;
}
DEVICE Stats *stats_of(const SlotDecodeParams &p, i32 row, i32 head) {
    return (Stats *)(queries_of(p, row) + p.stats_column) + head;
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
