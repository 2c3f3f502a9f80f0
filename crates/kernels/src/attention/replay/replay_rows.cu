// ptx: f32 -DACTIVATION=float
// ptx: bf16 -DACTIVATION=bf16
// ptx: f16 -DACTIVATION=f16
//
// A chunk's keys and values into their slots and back out, and slots filled from rows of tokens.
// A warp has one token of a kv head, or one slot.
//
// Roofline: bound by memory; each row is read and written once.

#include "prelude.cuh"

struct ReplayRowsParams {
    /// [seqs * kv_heads, tokens]: different slots for the tokens of a head.
    const i32 *chosen;
    i32 *positions;
    i32 *kept_positions;
    /// Of keys and of values: in slots, what lay there before [seqs * kv_heads, tokens, dim], and
    /// of tokens [seqs * row_tokens, kv_heads * dim].
    ACTIVATION *of_slots[2];
    ACTIVATION *kept[2];
    const ACTIVATION *rows[2];
    float *d_slots[2];
    float *d_rows[2];
    u32 row_strides[2];
    u32 row_tokens, first, tokens;
    i32 position;
    u32 kv_heads, dim, slots;
};

struct ReplayGatherParams {
    /// [seqs * tokens, kv_heads * dim]
    const ACTIVATION *rows;
    /// [seqs * kv_heads, slots], negative for none.
    const i32 *positions;
    /// [seqs * kv_heads, slots, dim]
    ACTIVATION *out;
    u32 row_stride, tokens, kv_heads, dim, slots;
};

static const u32 WARPS = 8;

/// Calls `f(i)` for a lane's part of some units.
template <typename F> DEVICE void each(u32 count, const F &f) {
    for (u32 i = threadIdx.x % 32; i < count; i += 32) f(i);
}

/// A token of a kv head of a sequence, the slot that it takes, and where its numbers are.
struct TokenPlace {
    bool is_there;
    u32 row, slot;
    u64 in_slots, in_kept, token, column;
};

DEVICE TokenPlace place_of_token(const ReplayRowsParams &p) {
    TokenPlace at;
    const u32 token = blockIdx.x * WARPS + threadIdx.x / 32;
    at.is_there = token < p.tokens;
    if (!at.is_there) return at;
    at.row = blockIdx.y;
    const u64 kept = (u64)at.row * p.tokens + token;
    at.slot = p.chosen[kept];
    at.in_slots = ((u64)at.row * p.slots + at.slot) * p.dim;
    at.in_kept = kept * p.dim;
    at.token = (u64)(at.row / p.kv_heads) * p.row_tokens + p.first + token;
    at.column = (u64)(at.row % p.kv_heads) * p.dim;
    if (threadIdx.x % 32 == 0) {
        i32 &position = p.positions[(u64)at.row * p.slots + at.slot];
        if (p.rows[0]) {
            p.kept_positions[kept] = position;
            position = p.position + (i32)token;
        } else {
            position = p.kept_positions[kept];
        }
    }
    return at;
}

/// Numbers in units of what is moved at once.
template <typename Unit> DEVICE void place(Unit *slot, Unit *kept, const Unit *row, u32 count) {
    each(count, [&](u32 i) {
        kept[i] = slot[i];
        slot[i] = row[i];
    });
}

/// Grid: eights of tokens, kv heads of sequences.
KERNEL __launch_bounds__(WARPS * 32) replay_place(const __grid_constant__ ReplayRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const TokenPlace at = place_of_token(p);
    if (!at.is_there) return;
#pragma unroll
    for (int side = 0; side < 2; side++) {
        ACTIVATION *slot = p.of_slots[side] + at.in_slots, *kept = p.kept[side] + at.in_kept;
        const ACTIVATION *row = p.rows[side] + at.token * p.row_strides[side] + at.column;
        const u32 bytes = p.dim * sizeof(ACTIVATION);
        if (fits_16((u64)slot | (u64)kept | (u64)row | bytes)) {
            place((Vec16 *)slot, (Vec16 *)kept, (const Vec16 *)row, bytes / 16);
        } else {
            place(slot, kept, row, p.dim);
        }
    }
}

/// The gradients in slots become those of rows, and slots get back what they had. Grid: as above.
KERNEL __launch_bounds__(WARPS * 32) replay_take_back(const __grid_constant__ ReplayRowsParams p) {
    let_next_start();
    wait_for_inputs();
    const TokenPlace at = place_of_token(p);
    if (!at.is_there) return;
#pragma unroll
    for (int side = 0; side < 2; side++) {
        ACTIVATION *slot = p.of_slots[side] + at.in_slots;
        const ACTIVATION *kept = p.kept[side] + at.in_kept;
        float *d_slot = p.d_slots[side] + at.in_slots;
        float *d_row = p.d_rows[side] + at.token * p.row_strides[side] + at.column;
        each(p.dim, [&](u32 i) {
            d_row[i] = d_slot[i];
            d_slot[i] = 0.0f;
            slot[i] = kept[i];
        });
    }
}

template <typename Unit> DEVICE void gather(Unit *out, const Unit *row, bool is_there, u32 count) {
    each(count, [&](u32 i) {
        if (is_there) out[i] = row[i];
        else out[i] = {};
    });
}

/// Grid: eights of slots, kv heads of sequences.
KERNEL __launch_bounds__(WARPS * 32) replay_gather(const __grid_constant__ ReplayGatherParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 slot = blockIdx.x * WARPS + threadIdx.x / 32, row = blockIdx.y;
    if (slot >= p.slots) return;
    const u64 at = (u64)row * p.slots + slot;
    const i32 position = p.positions[at];
    const bool is_there = 0 <= position;
    const u64 token = (u64)(row / p.kv_heads) * p.tokens + (is_there ? position : 0);
    const ACTIVATION *from = p.rows + token * p.row_stride + (u64)(row % p.kv_heads) * p.dim;
    ACTIVATION *out = p.out + at * p.dim;
    const u32 bytes = p.dim * sizeof(ACTIVATION);
    if (fits_16((u64)from | (u64)out | bytes)) {
        gather((Vec16 *)out, (const Vec16 *)from, is_there, bytes / 16);
    } else {
        gather(out, from, is_there, p.dim);
    }
}
