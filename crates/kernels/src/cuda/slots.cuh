// What the kernels around slots share: a rule's words, where a slot's bytes lie, and how a key or
// value is read. The twin of slot_layout.rs and slot_kv.rs.

#include "pages.cuh"

/// As `SlotRule` has them.
enum RuleKind { KEEP, RECENT, SCORED };
struct Rule {
    i32 past, slots, kind, protected_tokens, grace, initial, first_chunk, per_age, by_value_norm;
    float score_fraction;
    i32 rerotated, zero;
};

/// Slots that hold a token once `live` more are there.
DEVICE i32 filled_slots(const Rule &rule, i32 live) {
    const i32 seen = rule.past + live;
    return rule.kind == KEEP ? seen : min(seen, rule.slots);
}
/// Whether what a step attends to is added to scores.
DEVICE bool adds_to_scores(const Rule &rule) {
    return rule.kind == SCORED && 0 <= rule.past && rule.first_chunk <= rule.past;
}

/// The live rows of a step, by their sequences. The first `singles` have one row each; where all
/// have, the two arrays are null.
struct LiveRows {
    /// i32 [seqs, 12]
    const Rule *rules;
    /// i32 [seqs + 1], i32 [tokens]
    const i32 *live_starts, *row_seqs;
    /// i32 [seqs, table_stride]
    const i32 *block_tables;
    i32 table_stride, singles;
};

DEVICE i32 seq_of_row(const LiveRows &rows, i32 row) {
    return row < rows.singles ? row : rows.row_seqs[row];
}
DEVICE i32 first_row_of(const LiveRows &rows, i32 seq) {
    return seq < rows.singles ? seq : rows.live_starts[seq];
}
DEVICE i32 live_rows_of(const LiveRows &rows, i32 seq) {
    return seq < rows.singles ? 1 : rows.live_starts[seq + 1] - rows.live_starts[seq];
}
DEVICE const i32 *table_of(const LiveRows &rows, i32 seq) {
    return rows.block_tables + (u64)seq * rows.table_stride;
}

// ---- Where a slot's bytes lie.

enum RowFormat {
    F32_ROWS,
    F16_ROWS,
    BF16_ROWS,
    ASYMMETRIC_8,
    ASYMMETRIC_4,
    DYNAMIC_8,
    FLOAT_4,
    FP8_ROWS,
};

/// What the entries of a table stand for, the middles between neighbours in ascending order (behind
/// the last infinity), and the entries in that order.
struct Book {
    float values[256], borders[256];
    i32 ascending[256];
};

/// Keys or values of a layer: bytes from a page's start to their numbers and scales.
struct Side {
    u32 numbers, scales;
    i32 format;
    u32 row_bytes;
};

/// The pages of one group of layers, at one of its layers.
struct LayerSlots {
    u8 *pages;
    u64 page_bytes;
    /// Of DYNAMIC_8, of FLOAT_4 and of FP8_ROWS.
    const Book *books;
    Side keys, values;
    /// Bytes from a page's start to i32 positions and f32 notes; 0: there are no such notes.
    u32 positions, scores, value_norms, errors;
    i32 page_slots, kv_heads, dim;
};

/// A slot of one head: its page, and its row in all arrays there.
struct SlotLocation {
    u8 *page;
    u32 row;
};

/// A slot's page in the table, and its offset there: loops over slots need no division.
struct SlotWalk {
    u32 logical, offset;
};

DEVICE SlotWalk walk_to(const LayerSlots &layer, i32 slot) {
    const u32 logical = (u32)slot / (u32)layer.page_slots;
    return {logical, slot - logical * layer.page_slots};
}
/// So many slots further on as `by` is a walk to.
DEVICE SlotWalk walk_on(const LayerSlots &layer, SlotWalk at, const SlotWalk &by) {
    at.logical += by.logical;
    at.offset += by.offset;
    if ((u32)layer.page_slots <= at.offset) {
        at.offset -= layer.page_slots;
        at.logical++;
    }
    return at;
}
DEVICE SlotLocation locate_at(const LayerSlots &layer, const i32 *table, i32 kv_head, SlotWalk at) {
    return {layer.pages + (u64)(u32)table[at.logical] * layer.page_bytes,
            kv_head * layer.page_slots + at.offset};
}
DEVICE SlotLocation locate_slot(const LayerSlots &layer, const i32 *table, i32 kv_head, i32 slot) {
    return locate_at(layer, table, kv_head, walk_to(layer, slot));
}
DEVICE i32 *position_at(const LayerSlots &layer, const SlotLocation &location) {
    return (i32 *)(location.page + layer.positions) + location.row;
}
DEVICE float *note_at(u32 notes, const SlotLocation &location) {
    return (float *)(location.page + notes) + location.row;
}

// ---- Rows as they are stored.

/// A row's bytes; `scale` and `zero` of quantised ones.
struct StoredRow {
    const u8 *numbers;
    float scale;
    i32 zero;
};

DEVICE bool has_zero_point(i32 format) {
    return format == ASYMMETRIC_8 || format == ASYMMETRIC_4;
}
DEVICE u32 *scale_at(const Side &side, const SlotLocation &location) {
    const u32 words = has_zero_point(side.format) ? 2 : 1;
    return (u32 *)(location.page + side.scales) + location.row * words;
}
DEVICE StoredRow stored_row(const Side &side, const SlotLocation &location) {
    StoredRow row = {location.page + side.numbers + (u64)location.row * side.row_bytes, 1.0f, 0};
    if (side.format < ASYMMETRIC_8) return row;
    const u32 *scale = scale_at(side, location);
    row.scale = __uint_as_float(scale[0]);
    if (has_zero_point(side.format)) row.zero = (i32)scale[1];
    return row;
}

/// What a quantised value stands for, rounded as on the host whatever is done with it. Those that
/// are no steps stand in a book, in the order of the formats.
DEVICE float dequantised(i32 format, const Book *books, u32 quant, float scale, i32 zero) {
    const float number = has_zero_point(format) ? (float)((i32)quant - zero)
                                                : books[format - DYNAMIC_8].values[quant];
    return __fmul_rn(number, scale);
}

/// Number `i` of a quantised row, as it is stored.
DEVICE u32 quant_at(i32 format, const u8 *numbers, i32 dim, i32 i) {
    const bool is_half = format == ASYMMETRIC_4 || format == FLOAT_4;
    if (!is_half) return numbers[i];
    const bool is_low = format == ASYMMETRIC_4 ? dim / 2 <= i : i % 2 == 1;
    const i32 byte = format == ASYMMETRIC_4 ? i - (is_low ? dim / 2 : 0) : i / 2;
    return numbers[byte] >> (is_low ? 0 : 4) & 15;
}

/// Numbers `lane`, `lane + 32` and so on of a row, zeros behind its end.
template <int NUMBERS>
DEVICE void load_row(const LayerSlots &layer, const Side &side, const StoredRow &row,
                     float x[NUMBERS], int lane) {
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) {
        const i32 at = lane + 32 * i;
        x[i] = 0.0f;
        if (at >= layer.dim) continue;
        if (side.format == F32_ROWS) {
            x[i] = ((const float *)row.numbers)[at];
        } else if (side.format < ASYMMETRIC_8) {
            const u16 bits = ((const u16 *)row.numbers)[at];
            x[i] = side.format == F16_ROWS ? widen(f16{bits}) : widen(bf16{bits});
        } else {
            const u32 quant = quant_at(side.format, row.numbers, layer.dim, at);
            x[i] = dequantised(side.format, layer.books, quant, row.scale, row.zero);
        }
    }
}
