// A warpgroup's half of a block: 64 rows, 16 to a warp, what they see, and their queries. To be
// included after hstu_attention_hopper.cuh.

/// A warpgroup's half of a block.
struct Half {
    int group, thread;
    Block block;

    DEVICE int lane() const { return thread % 32; }
    DEVICE u32 queries() const { return block.base + group * GROUP_ROWS * 128; }
    /// The first of the two rows of the block that this thread has scores of; the other is 8 later.
    DEVICE i32 row() const { return group * GROUP_ROWS + thread / 32 * 16 + lane() / 4; }
    DEVICE void sync() const { sync_some(1 + group, WARPGROUP); }
    /// Neither the item nor its queries and spans are read any more. Each lane for itself: it has
    /// read them itself.
    DEVICE void leave_item() const { barrier_arrive(block.item_empty()); }
    /// One lane for its warp: what it arrives for was read by products, or before.
    DEVICE void release(u32 barrier) const {
        if (lane() == 0) barrier_arrive(barrier);
    }
};

DEVICE i32 warp_least(i32 x) {
    i32 y;
    asm volatile("redux.sync.min.s32 %0, %1, 0xffffffff;" : "=r"(y) : "r"(x));
    return y;
}
DEVICE i32 warp_most(i32 x) {
    i32 y;
    asm volatile("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(y) : "r"(x));
    return y;
}

/// Of one segment: what some of a warpgroup's rows see, and what all of them see.
struct Seen {
    Segment some, all;
};

static const i32 FAR = 0x7fffffff;

/// Rows that see nothing of a segment hide every tile of it; rows that are not there hide nothing.
DEVICE Seen seen_by(Segment first, Segment second, bool has_first, bool has_second) {
    const bool sees_first = has_first && first.begin < first.end;
    const bool sees_second = has_second && second.begin < second.end;
    i32 least = FAR, most = 0, all_from = 0, all_to = FAR;
    if (sees_first) least = first.begin, most = first.end;
    if (sees_second) least = min(least, second.begin), most = max(most, second.end);
    if (has_first) all_from = first.begin, all_to = sees_first ? first.end : 0;
    if (has_second) {
        all_from = max(all_from, second.begin);
        all_to = min(all_to, sees_second ? second.end : 0);
    }
    return {{warp_least(least), warp_most(most)}, {warp_most(all_from), warp_least(all_to)}};
}

/// What there is to know of an item's rows.
struct RowsView {
    Seen history, live;

    DEVICE bool sees(const Item &item, i32 tile) const {
        const bool is_live = item.is_live(tile);
        const i32 start = item.start_of(tile);
        return start < (is_live ? live.some.end : history.some.end) &&
               start + KEYS > (is_live ? live.some.begin : history.some.begin);
    }
    DEVICE bool sees_all(const Item &item, i32 tile) const {
        const bool is_live = item.is_live(tile);
        const i32 start = item.start_of(tile);
        return start >= (is_live ? live.all.begin : history.all.begin) &&
               start + KEYS <= (is_live ? live.all.end : history.all.end);
    }
};

DEVICE RowsView view_rows(const Half &half, const Item &item) {
    const i32 *spans = (const i32 *)(half.block.shared + SPANS_AT);
    const i32 rows = item.rows - half.group * GROUP_ROWS;
    const int lane = half.lane();
    const Vec16 first = load16(spans + 4 * (half.group * GROUP_ROWS + lane));
    const Vec16 second = load16(spans + 4 * (half.group * GROUP_ROWS + 32 + lane));
    const bool has_first = lane < rows, has_second = 32 + lane < rows;
    RowsView view;
    view.history = seen_by({(i32)first.word[0], (i32)first.word[1]},
                           {(i32)second.word[0], (i32)second.word[1]}, has_first, has_second);
    view.live = seen_by({(i32)first.word[2], (i32)first.word[3]},
                        {(i32)second.word[2], (i32)second.word[3]}, has_first, has_second);
    return view;
}

/// 1 + exp(-x), at most 2^60, beyond which x * sigmoid(x) is nothing.
DEVICE float one_and_exp(float x) {
    return 1.0f + exp2_fast(fminf(-1.4426950408889634f * x, 60.0f));
}

/// x * sigmoid(x) of a pair, to a few units of the last digit of f32 before it is rounded. The two
/// share a division, 1 / a = b / (a b): all warps wait for it, and the unit that divides is slow.
DEVICE u32 silu_pair(u32 pair) {
    const float x = low_of<bf16>(pair), y = high_of<bf16>(pair);
    const float a = one_and_exp(x), b = one_and_exp(y);
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(a * b));
    return pack<bf16>(x * (inverse * b), y * (inverse * a));
}

/// SiLU of the warpgroup's queries, in place.
DEVICE void activate_queries(const Half &half) {
#pragma unroll 4
    for (int i = half.thread; i < GROUP_ROWS * HEAD_DIM / 8; i += WARPGROUP) {
        const int part = i / (GROUP_ROWS * 8), rest = i % (GROUP_ROWS * 8);
        u8 *rows = half.block.shared + half.group * GROUP_ROWS * 128;
        u8 *at = rows + part * QUERY_PART_BYTES + rest * 16;
        Vec16 x = load16(at);
#pragma unroll
        for (int j = 0; j < 4; j++) x.word[j] = silu_pair(x.word[j]);
        store16(at, x);
    }
    fence_for_products();
    half.sync();
}
