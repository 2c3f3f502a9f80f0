// ptx: f32 -DACTIVATION=float
// ptx: bf16 -DACTIVATION=bf16
// ptx: f16 -DACTIVATION=f16
//
// Gradients of attention over replayed slots, as replay_plain.cu computes it. Those of queries and
// those of slots are sums of different blocks, each in one fixed order, and both compute the scores
// again; replay_gradients.cu has what Hopper's tensor cores take.
//
// Roofline: as in replay_plain.cu.

#include "prelude.cuh"

#include "replay.cuh"

#include "replay_plain.cuh"

struct ReplayGradientParams : ReplayStep {
    const ACTIVATION *out;
    /// [seqs * row_tokens, heads], and gradients as what they are of.
    const float *log_sums;
    const float *d_out;
    float *d_query;
    float *d_keys;
    float *d_values;
    /// [seqs * tokens, heads]: d_out . out
    float *means;
    u32 out_stride, d_out_stride, d_query_stride;
};

DEVICE u64 mean_at(const ReplayGradientParams &p, u32 seq, u32 token, u32 head) {
    return ((u64)seq * p.tokens + token) * p.heads + head;
}

/// Grid: eights of tokens and heads, sequences; a warp has one of each.
KERNEL __launch_bounds__(THREADS) replay_means(const __grid_constant__ ReplayGradientParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 lane = threadIdx.x % 32, seq = blockIdx.y;
    const u32 index = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    const u32 token = index / p.heads, head = index % p.heads;
    if (token >= p.tokens) return;
    const ACTIVATION *out = p.out + head_at(p, p.out_stride, seq, token, head);
    const float *d_out = p.d_out + head_at(p, p.d_out_stride, seq, token, head);
    float sum = 0.0f;
    for (u32 i = lane; i < p.dim; i += 32) sum += widen(out[i]) * d_out[i];
    sum = warp_sum(sum);
    if (lane == 0) p.means[mean_at(p, seq, token, head)] = sum;
}

/// A tile of a head's queries in shared memory, with the gradients of their results.
template <int TILE> struct Queries {
    float *rows, *d_out, *log_sums, *means;

    DEVICE void bring(const ReplayGradientParams &p, u32 seq, u32 first, u32 head) const {
        const u32 count = min((u32)TILE, p.tokens - first);
        const u64 query = head_at(p, p.query_stride, seq, first, head);
        load_tile<TILE>(rows, (const ACTIVATION *)p.query + query, p.query_stride, count, p.dim);
        load_tile<TILE>(d_out, p.d_out + head_at(p, p.d_out_stride, seq, first, head),
                        p.d_out_stride, count, p.dim);
        if (threadIdx.x >= TILE) return;
        // A sum that is infinite leaves no share to rows that are not there.
        const u32 token = first + threadIdx.x;
        const bool is_there = threadIdx.x < count;
        log_sums[threadIdx.x] =
            is_there ? p.log_sums[row_of(p, seq, token) * p.heads + head] : INFINITE;
        means[threadIdx.x] = is_there ? p.means[mean_at(p, seq, token, head)] : 0.0f;
    }
};

/// A tile of a kv head's slots.
template <int TILE> struct Slots {
    float *keys, *values;
    i32 *positions;

    DEVICE void bring_positions(const ReplayStep &p, u32 row, u32 start) const {
        if (threadIdx.x < TILE) positions[threadIdx.x] = position_of(p, row, start + threadIdx.x);
    }
    DEVICE void bring(const ReplayStep &p, u32 row, u32 start) const {
        const u32 count = min((u32)TILE, p.filled - start);
        const u64 at = slot_at(p, row, start);
        load_tile<TILE>(keys, (const ACTIVATION *)p.keys + at, p.dim, count, p.dim);
        load_tile<TILE>(values, (const ACTIVATION *)p.values + at, p.dim, count, p.dim);
    }
};

template <int TILE> struct Block {
    static const int ROWS = TILE / SIDE;
    typedef Sizes<TILE> Size;

    const ReplayGradientParams &p;
    Queries<TILE> queries;
    Slots<TILE> slots;
    /// [own rows, met rows]
    float *shares, *d_scores;

    DEVICE Block(const ReplayGradientParams &p, u8 *shared) : p(p) {
        Parts parts = {(float *)shared};
        queries.rows = parts.tile(TILE, p.dim);
        queries.d_out = parts.tile(TILE, p.dim);
        slots.keys = parts.tile(TILE, p.dim);
        slots.values = parts.tile(TILE, p.dim);
        shares = parts.numbers(TILE * Size::PITCH);
        d_scores = parts.numbers(TILE * Size::PITCH);
        queries.log_sums = parts.numbers(TILE);
        queries.means = parts.numbers(TILE);
        slots.positions = (i32 *)parts.numbers(TILE);
    }

    /// Writes shares and `scale` times the gradients of scaled scores, of queries from `first` on.
    template <bool QUERIES_OWN> DEVICE void score(u32 first) const {
        const Place at = place_of_thread();
        float s[ROWS][ROWS], d[ROWS][ROWS];
        multiply_tiles<TILE>(s, queries.rows, slots.keys, p.dim);
        multiply_tiles<TILE>(d, queries.d_out, slots.values, p.dim);
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < ROWS; j++) {
                const u32 query = at.y + SIDE * i, slot = at.x + SIDE * j;
                const i32 position = slots.positions[slot];
                const bool is_seen = sees(p.position + (i32)(first + query), position, p.window);
                const float share =
                    is_seen ? expf(s[i][j] * p.scale - queries.log_sums[query]) : 0.0f;
                const float d_score = share * (d[i][j] - queries.means[query]) * p.scale;
                const u32 own = QUERIES_OWN ? query : slot, met = QUERIES_OWN ? slot : query;
                if (!QUERIES_OWN) shares[own * Size::PITCH + met] = share;
                d_scores[own * Size::PITCH + met] = d_score;
            }
    }

    /// A block has TILE queries of a head. Grid: tiles of queries, heads, sequences.
    DEVICE void d_query() const {
        const u32 seq = blockIdx.z, head = blockIdx.y, first = blockIdx.x * TILE;
        const u32 row = slot_row(p, seq, head / p.group), count = min((u32)TILE, p.tokens - first);
        const i32 first_at = p.position + (i32)first;
        queries.bring(p, seq, first, head);
        RowSums<TILE> sums = {};
        for (u32 start = 0; start < p.filled; start += TILE) {
            __syncthreads();
            slots.bring_positions(p, row, start);
            const bool is_seen =
                threadIdx.x < TILE && some_sees(first_at, first_at + (i32)count - 1,
                                                slots.positions[threadIdx.x], p.window);
            if (!__syncthreads_or(is_seen)) continue;
            slots.bring(p, row, start);
            __syncthreads();
            score<true>(first);
            // A row is written and read by one half of a warp.
            __syncwarp();
            sums.add(d_scores, slots.keys, min((u32)TILE, p.filled - start), p.dim);
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const u32 own = place_of_thread().y + SIDE * i;
            if (own >= count) continue;
            float *to = p.d_query + head_at(p, p.d_query_stride, seq, first + own, head);
            sums.each(i, p.dim, [&](u32 number, float sum) { to[number] = sum; });
        }
    }

    /// A block has TILE slots, which all queries of their heads meet. Grid: tiles of slots, kv
    /// heads, sequences.
    DEVICE void d_slots() const {
        const u32 seq = blockIdx.z, kv_head = blockIdx.y, start = blockIdx.x * TILE;
        const u32 row = slot_row(p, seq, kv_head);
        slots.bring_positions(p, row, start);
        slots.bring(p, row, start);
        __syncthreads();
        const TokenSpan span = tokens_that_see(p, slots.positions, TILE);
        RowSums<TILE> d_keys = {}, d_values = {};
        for (u32 head = kv_head * p.group; head < (kv_head + 1) * p.group; head++) {
            for (u32 first = span.begin / TILE * TILE; first < span.end; first += TILE) {
                __syncthreads();
                queries.bring(p, seq, first, head);
                __syncthreads();
                score<false>(first);
                __syncthreads();
                const u32 count = min((u32)TILE, p.tokens - first);
                d_values.add(shares, queries.d_out, count, p.dim);
                d_keys.add(d_scores, queries.rows, count, p.dim);
            }
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const u32 slot = start + place_of_thread().y + SIDE * i;
            if (slot >= p.filled) continue;
            const u64 at = slot_at(p, row, slot);
            d_keys.each(i, p.dim, [&](u32 number, float sum) { p.d_keys[at + number] += sum; });
            d_values.each(i, p.dim, [&](u32 number, float sum) { p.d_values[at + number] += sum; });
        }
    }
};

#define PLAIN_KERNEL(name, tile, body)                                                            \
    KERNEL __launch_bounds__(THREADS) name(const __grid_constant__ ReplayGradientParams p) {       \
        extern __shared__ __align__(1024) u8 shared[];                                             \
        let_next_start();                                                                          \
        wait_for_inputs();                                                                         \
        Block<tile>(p, shared).body();                                                             \
    }

PLAIN_KERNEL(replay_d_query_32, 32, d_query)
PLAIN_KERNEL(replay_d_query_16, 16, d_query)
PLAIN_KERNEL(replay_d_slots_32, 32, d_slots)
PLAIN_KERNEL(replay_d_slots_16, 16, d_slots)
