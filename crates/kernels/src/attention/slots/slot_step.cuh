// What every kernel that attends over slots knows of a step. To be included after slots.cuh.

#include "slot_rerotate.cuh"

struct SlotStep {
    LayerSlots layer;
    LiveRows rows;
    ReadRope rope;
    /// f32 [tokens, query_stride]: a row's queries, the re-rotated ones, and from `stats_column` on
    /// four numbers about each head's softmax.
    float *queries;
    /// f32 or bf16 [tokens, heads, dim]
    void *out;
    i32 query_stride, stats_column, group, window, has_rerotated, out_type;
    /// The row of the grid's first blocks.
    i32 first_row;
    /// The softmax's where sequences have none of their own, times log2(e) for kernels that take
    /// powers of two.
    float scale;
};

DEVICE float *queries_of(const SlotStep &p, i32 row) {
    return p.queries + (u64)row * p.query_stride;
}
DEVICE float *stats_at(const SlotStep &p, i32 row, i32 head) {
    return queries_of(p, row) + p.stats_column + head * 4;
}
