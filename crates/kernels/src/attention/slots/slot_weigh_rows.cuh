// What chunks add to scores: what slot_weights.cu and slot_weights_mma.cu have in common. To be
// included after slot_chunk.cuh, with SLOTS (of a block) and QUERY_ROWS (of a tile of queries) set.

/// What a block does: slots of one head from `first` on.
struct Work {
    SlotSeq seq;
    i32 seq_in_launch, kv_head, first;
};

DEVICE bool find_work(const SlotChunkParams &p, Work &work) {
    work.seq_in_launch = blockIdx.z;
    const i32 seq = p.first_seq + work.seq_in_launch;
    if (!adds_to_scores(p.rows.rules[seq])) return false;
    work.seq = find_seq(p, seq);
    work.kv_head = blockIdx.y;
    work.first = blockIdx.x * SLOTS;
    return work.first < work.seq.filled;
}

/// A tile of queries: `rows` of one head in the group. Heads change first, then rows.
struct Item {
    i32 number, head, first_row;
    DEVICE void advance(i32 group) {
        number++;
        head++;
        if (head < group) return;
        head = 0;
        first_row += QUERY_ROWS;
    }
};

/// A row that is not there weighs nothing.
DEVICE float log_sum_of(const SlotChunkParams &p, const Work &work, const Item &item, int thread) {
    const i32 row = item.first_row + thread, head = work.kv_head * p.group + item.head;
    return row < work.seq.live ? *stats_at(p, work.seq.row + row, head) : INFINITE;
}

/// A lane's two slots. Of each it sums the weights of even and odd queries apart.
struct Weighing {
    i32 position[2];
    i32 newest, oldest;
    float sums[4];
};

static const int NONE = 0, AHEAD_OF_ROWS = 1, BESIDE_WINDOW = 2;

/// Adds the weights of a tile of queries, the first at `position`. Unseen slots get nothing.
template <int HIDES>
DEVICE void add_weights(Weighing &weighing, const float (&s)[QUERY_ROWS / 8][4],
                        const float *log_sums, float scale, i32 position, i32 window, int thread) {
#pragma unroll
    for (int column = 0; column < QUERY_ROWS / 8; column++) {
        const int query = column * 8 + thread % 4 * 2;
        const float2 logs = *(const float2 *)(log_sums + query);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float weight = exp2_fast(s[column][i] * scale - (i % 2 ? logs.y : logs.x));
            const i32 row = position + query + i % 2, slot = weighing.position[i / 2];
            if (HIDES == NONE || is_seen<HIDES == BESIDE_WINDOW>(slot, row, window))
                weighing.sums[i] += weight;
        }
    }
}

/// Adds the weights of a tile of queries, by which of them see all slots.
DEVICE void add_tile(Weighing &weighing, const SlotChunkParams &p, const SlotSeq &seq,
                     const float (&s)[QUERY_ROWS / 8][4], const float *log_sums, i32 first_row,
                     int thread) {
    const i32 position = seq.past + first_row;
    if (p.window > 0 && weighing.oldest <= position + QUERY_ROWS - 1 - p.window) {
        add_weights<BESIDE_WINDOW>(weighing, s, log_sums, seq.scale, position, p.window, thread);
    } else if (position < weighing.newest) {
        add_weights<AHEAD_OF_ROWS>(weighing, s, log_sums, seq.scale, position, 0, thread);
    } else {
        add_weights<NONE>(weighing, s, log_sums, seq.scale, position, 0, thread);
    }
}

/// Adds what a slot has won to its score, or leaves it for slot_norm_weights.cu where norms of
/// values count.
DEVICE void write_weight(const SlotChunkParams &p, const Work &work, i32 slot, float weight) {
    if (slot >= work.seq.filled) return;
    if (p.weights) {
        const u64 row = (u64)work.seq_in_launch * p.layer.kv_heads + work.kv_head;
        p.weights[row * p.weights_stride + slot] = weight;
    } else {
        const SlotLocation location = locate_slot(p.layer, work.seq.table, work.kv_head, slot);
        *note_at(p.layer.scores, location) += weight;
    }
}

/// Writes what a lane's slots, `row` of the block and eight further on, have won.
DEVICE void write_weights(const SlotChunkParams &p, const Work &work, const Weighing &weighing,
                          int row, int lane) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = weighing.sums[2 * half] + weighing.sums[2 * half + 1];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        if (lane % 4 == 0) write_weight(p, work, work.first + row + half * 8, sum / p.group);
    }
}

/// Of a lane's slots, `row` of the block and eight further on.
DEVICE Weighing begin_weighing(const i32 *positions, int row) {
    Weighing weighing = {{positions[row], positions[row + 8]}, 0, 0, {}};
    weighing.newest = warp_most(max(weighing.position[0], weighing.position[1]));
    weighing.oldest = warp_least(min(weighing.position[0], weighing.position[1]));
    return weighing;
}
