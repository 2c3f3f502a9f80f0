// Chunks over slots: what kernels for them share. To be included after slots.cuh.

#include "slot_step.cuh"

/// From `narrow_column` on `queries` have the same as tensor cores take them, which `slot_chunk`
/// leaves for `slot_weights`. The first of a head's four numbers is the logarithm, in powers of
/// two, of the sum of its weights before they are divided by it.
struct SlotChunkParams : SlotStep {
    /// i32 [tiles, 2]: sequence (-1: none) and first row in its chunk.
    const i32 *tiles;
    /// f32 [sequences of the launch, kv_heads, weights_stride]: the weights of slots, where norms
    /// of values may count; else null.
    float *weights;
    i32 narrow_column, weights_stride;
    /// Sequence of the first blocks of `slot_weights` and `slot_norm_weights`.
    i32 first_seq;
};

/// A sequence of a step: `live` rows from `row` of the batch on, the first at position `past`.
struct SlotSeq {
    const i32 *table;
    i32 row, live, past;
    /// Slots that hold a token; and whether each holds the token of its own number.
    i32 filled;
    bool in_order;
    SeqRotation rotation;
    /// The softmax's times log2(e).
    float scale;
};

DEVICE SlotSeq find_seq(const SlotChunkParams &p, i32 number) {
    const LiveRows &rows = p.rows;
    const Rule &rule = rows.rules[number];
    SlotSeq seq;
    seq.table = table_of(rows, number);
    seq.row = first_row_of(rows, number);
    seq.live = live_rows_of(rows, number);
    seq.past = rule.past;
    seq.filled = filled_slots(rule, seq.live);
    seq.in_order = seq.past + seq.live <= seq.filled;
    seq.rotation = rotation_of_seq(p.rope, rule, number);
    seq.scale = scale_of_seq(p.rope, number, p.scale);
    return seq;
}

// ---- Slots, looked up in two steps: pages come one step ahead.

/// -1 from `end` on.
DEVICE i32 page_of_slot(const LayerSlots &layer, const i32 *table, i32 slot, i32 end) {
    return slot < end ? table[(u32)slot / (u32)layer.page_slots] : -1;
}
/// Null where there is none.
DEVICE SlotLocation locate_in_page(const LayerSlots &layer, i32 kv_head, i32 slot, i32 page) {
    if (page < 0) return {nullptr, 0};
    const u32 offset = (u32)slot % (u32)layer.page_slots;
    return {layer.pages + (u64)(u32)page * layer.page_bytes, kv_head * layer.page_slots + offset};
}

// ---- Which slots a row sees: those whose token is not ahead of it, nor behind its window.

/// Where no token is: a position that lies ahead of every row.
static const i32 NOWHERE = 0x7fffffff;

/// As it is stored: negative where no token is.
DEVICE i32 load_position(const LayerSlots &layer, const SlotLocation &location) {
    return location.page ? *position_at(layer, location) : -1;
}
DEVICE i32 position_or_nowhere(i32 stored) {
    return stored < 0 ? NOWHERE : stored;
}

template <bool HAS_WINDOW> DEVICE bool is_seen(i32 position, i32 row_position, i32 window) {
    return HAS_WINDOW ? (u32)(row_position - position) < (u32)window : position <= row_position;
}

// ---- Small things.

/// The logarithm of a positive number in powers of two.
DEVICE float log2_fast(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#define INFINITE __int_as_float(0x7f800000)

DEVICE i32 warp_most(i32 x) {
    return __reduce_max_sync(~0u, x);
}
DEVICE i32 warp_least(i32 x) {
    return __reduce_min_sync(~0u, x);
}
