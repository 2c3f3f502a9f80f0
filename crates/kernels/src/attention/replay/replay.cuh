// Attention over replayed slots: what its kernels share. To be included after prelude.cuh.
//
// Slots are in no order. A query sees a slot whose token is not ahead of it, nor behind its window.

/// A chunk's queries and the slots that they see, as in cuda/replay_step.rs.
struct ReplayStep {
    /// [seqs * row_tokens, heads * dim], `query_stride` numbers from one row to the next.
    const void *query;
    /// [seqs * kv_heads, slots, dim]
    const void *keys;
    const void *values;
    /// [seqs * kv_heads, slots], negative for none.
    const i32 *positions;
    u32 query_stride;
    /// Tokens of each sequence that the arrays have, the chunk's first among them, and its own.
    u32 row_tokens, first, tokens;
    /// Of the first token in its sequence.
    i32 position;
    u32 heads, group;
    u32 dim;
    /// Of a head: that there are, and that hold tokens.
    u32 slots, filled;
    /// Keys this many positions back and further are not seen; 2^31 where all are.
    u32 window;
    float scale;
};

/// The array's row of a token of a sequence's chunk.
DEVICE u64 row_of(const ReplayStep &p, u32 seq, u32 token) {
    return (u64)seq * p.row_tokens + p.first + token;
}
/// A head's numbers in such a row, whose rows are `stride` numbers apart.
DEVICE u64 head_at(const ReplayStep &p, u32 stride, u32 seq, u32 token, u32 head) {
    return row_of(p, seq, token) * stride + (u64)head * p.dim;
}
/// The row of a kv head's slots.
DEVICE u32 slot_row(const ReplayStep &p, u32 seq, u32 kv_head) {
    return seq * (p.heads / p.group) + kv_head;
}
/// A slot's numbers among keys, values or their gradients.
DEVICE u64 slot_at(const ReplayStep &p, u32 row, u32 slot) {
    return ((u64)row * p.slots + slot) * p.dim;
}

/// Where no token is: a position that lies ahead of every query.
static const i32 NOWHERE = 0x7fffffff;
#define INFINITE __int_as_float(0x7f800000)
static constexpr float LOG2_E = 1.4426950408889634f;

DEVICE i32 position_of(const ReplayStep &p, u32 row, u32 slot) {
    const i32 position = slot < p.filled ? p.positions[(u64)row * p.slots + slot] : -1;
    return position < 0 ? NOWHERE : position;
}
/// Whether a query at `query` sees a slot: what lies ahead of it is 2^31 and more back, unsigned.
DEVICE bool sees(i32 query, i32 position, u32 window) {
    return (u32)(query - position) < window;
}
/// Whether one of the queries from `first` to `last` does.
DEVICE bool some_sees(i32 first, i32 last, i32 position, u32 window) {
    return position <= last && sees(max(first, position), position, window);
}
/// Whether they all do.
DEVICE bool all_see(i32 first, i32 last, i32 position, u32 window) {
    return sees(first, position, window) && sees(last, position, window);
}

/// Tokens of the chunk that may see one of some slots.
struct TokenSpan {
    u32 begin, end;
};

/// Of slots whose tokens lie from `least` to `most`; `least` is NOWHERE where there are none.
DEVICE TokenSpan tokens_that_see(const ReplayStep &p, i32 least, i32 most) {
    if (least == NOWHERE) return {0, 0};
    const i64 begin = (i64)least - p.position, end = (i64)most + p.window - p.position;
    return {(u32)max(begin, (i64)0), (u32)max(min(end, (i64)p.tokens), (i64)0)};
}
