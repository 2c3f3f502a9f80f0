// ptx: f32 -DACTIVATION=float
// ptx: bf16 -DACTIVATION=bf16
// ptx: f16 -DACTIVATION=f16
//
// Attention of a chunk over replayed slots, and how much it attended to each: for heads of up to
// 256 numbers, in f32 with the softmax's exponential to its last digits. replay_attend.cu and
// replay_weights.cu have what Hopper's tensor cores take.
//
// Roofline: bound by reads of shared memory, of which four multiplications have one.

#include "prelude.cuh"

#include "replay.cuh"

#include "replay_plain.cuh"

struct ReplayAttendParams : ReplayStep {
    ACTIVATION *out;
    /// [seqs * row_tokens, heads]
    float *log_sums;
    u32 out_stride;
};

struct ReplayWeightsParams : ReplayStep {
    const float *log_sums;
    /// [seqs * kv_heads, filled]
    float *weights;
};

#define MINUS_INFINITY __int_as_float(0xff800000)

// ---- Attention: a block has TILE queries of a head.

template <int TILE> struct Attend {
    static const int ROWS = TILE / SIDE;
    typedef Sizes<TILE> Size;

    const ReplayAttendParams &p;
    u32 seq, head, row, first, rows;
    float *queries, *keys, *values, *weights;
    i32 *positions;

    DEVICE Attend(const ReplayAttendParams &p, u8 *shared)
        : p(p), seq(blockIdx.z), head(blockIdx.y), first(blockIdx.x * TILE) {
        row = slot_row(p, seq, head / p.group);
        rows = min((u32)TILE, p.tokens - first);
        Parts parts = {(float *)shared};
        queries = parts.tile(TILE, p.dim);
        keys = parts.tile(TILE, p.dim);
        values = parts.tile(TILE, p.dim);
        weights = parts.numbers(TILE * Size::PITCH);
        positions = (i32 *)parts.numbers(TILE);
    }

    /// Brings a tile of slots; false where no query sees one of them.
    DEVICE bool bring(u32 start) const {
        const i32 first_at = p.position + (i32)first, last_at = first_at + (i32)rows - 1;
        bool is_seen = false;
        if (threadIdx.x < TILE) {
            const i32 position = position_of(p, row, start + threadIdx.x);
            positions[threadIdx.x] = position;
            is_seen = some_sees(first_at, last_at, position, p.window);
        }
        if (!__syncthreads_or(is_seen)) return false;
        const u64 at = slot_at(p, row, start);
        const u32 count = min((u32)TILE, p.filled - start);
        load_tile<TILE>(keys, (const ACTIVATION *)p.keys + at, p.dim, count, p.dim);
        load_tile<TILE>(values, (const ACTIVATION *)p.values + at, p.dim, count, p.dim);
        __syncthreads();
        return true;
    }

    DEVICE void run() const {
        const Place at = place_of_thread();
        const u64 query = head_at(p, p.query_stride, seq, first, head);
        load_tile<TILE>(queries, (const ACTIVATION *)p.query + query, p.query_stride, rows, p.dim);
        float largest[ROWS], total[ROWS];
        RowSums<TILE> sums = {};
#pragma unroll
        for (int i = 0; i < ROWS; i++) largest[i] = MINUS_INFINITY, total[i] = 0.0f;
        for (u32 start = 0; start < p.filled; start += TILE) {
            __syncthreads();
            if (!bring(start)) continue;
            float s[ROWS][ROWS];
            multiply_tiles<TILE>(s, queries, keys, p.dim);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                weigh(s[i], at.y + SIDE * i, largest[i], total[i], sums, i);
            // A row of weights is written and read by one half of a warp.
            __syncwarp();
            sums.add(weights, values, min((u32)TILE, p.filled - start), p.dim);
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++) write(sums, i, largest[i], total[i]);
    }

    /// Makes weights of a row's scores.
    DEVICE void weigh(float (&s)[ROWS], u32 own, float &largest, float &total,
                      RowSums<TILE> &sums, int i) const {
        const Place at = place_of_thread();
        const i32 query = p.position + (i32)(first + own);
        float most = largest;
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            const bool is_seen = sees(query, positions[at.x + SIDE * j], p.window);
            s[j] = is_seen ? s[j] * p.scale : MINUS_INFINITY;
            most = fmaxf(most, s[j]);
        }
        most = row_max(most);
        // A row may have seen nothing yet.
        const float from = most == MINUS_INFINITY ? 0.0f : most;
        const float shrink = expf(largest - from);
        float added = 0.0f;
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            const float weight = expf(s[j] - from);
            weights[own * Size::PITCH + at.x + SIDE * j] = weight;
            added += weight;
        }
        largest = most;
        total = total * shrink + row_sum(added);
        sums.scale(i, shrink);
    }

    DEVICE void write(const RowSums<TILE> &sums, int i, float largest, float total) const {
        const Place at = place_of_thread();
        const u32 own = at.y + SIDE * i;
        if (own >= rows) return;
        const bool saw = total > 0.0f;
        const float inverse = saw ? 1.0f / total : 0.0f;
        ACTIVATION *out = p.out + head_at(p, p.out_stride, seq, first + own, head);
        sums.each(i, p.dim, [&](u32 number, float sum) {
            out[number] = round_to<ACTIVATION>(sum * inverse);
        });
        // With an infinite sum a query that saw nothing has no gradients.
        const float log_sum = saw ? largest + logf(total) : INFINITE;
        if (at.x == 0) p.log_sums[row_of(p, seq, first + own) * p.heads + head] = log_sum;
    }
};

/// Grid: tiles of queries, heads, sequences.
KERNEL __launch_bounds__(THREADS) replay_attend_32(const __grid_constant__ ReplayAttendParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    let_next_start();
    wait_for_inputs();
    Attend<32>(p, shared).run();
}
KERNEL __launch_bounds__(THREADS) replay_attend_16(const __grid_constant__ ReplayAttendParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    let_next_start();
    wait_for_inputs();
    Attend<16>(p, shared).run();
}

// ---- Weights: a block has TILE slots, which all queries of their heads meet.

template <int TILE> DEVICE void sum_weights(const ReplayWeightsParams &p, u8 *shared) {
    const int rows = TILE / SIDE;
    const Place at = place_of_thread();
    const u32 seq = blockIdx.z, kv_head = blockIdx.y, start = blockIdx.x * TILE;
    const u32 row = slot_row(p, seq, kv_head), count = min((u32)TILE, p.filled - start);
    Parts parts = {(float *)shared};
    float *keys = parts.tile(TILE, p.dim), *queries = parts.tile(TILE, p.dim);
    float *sums = parts.numbers(SIDE * TILE), *log_sums = parts.numbers(TILE);
    i32 *positions = (i32 *)parts.numbers(TILE);
    const u64 slot = slot_at(p, row, start);
    load_tile<TILE>(keys, (const ACTIVATION *)p.keys + slot, p.dim, count, p.dim);
    if (threadIdx.x < TILE) positions[threadIdx.x] = position_of(p, row, start + threadIdx.x);
    __syncthreads();
    const TokenSpan span = tokens_that_see(p, positions, TILE);
    float sum[rows] = {};
    for (u32 head = kv_head * p.group; head < (kv_head + 1) * p.group; head++) {
        for (u32 first = span.begin / TILE * TILE; first < span.end; first += TILE) {
            __syncthreads();
            const u32 met = min((u32)TILE, p.tokens - first);
            const u64 query = head_at(p, p.query_stride, seq, first, head);
            load_tile<TILE>(queries, (const ACTIVATION *)p.query + query, p.query_stride, met,
                            p.dim);
            if (threadIdx.x < met)
                log_sums[threadIdx.x] =
                    p.log_sums[row_of(p, seq, first + threadIdx.x) * p.heads + head];
            __syncthreads();
            float s[rows][rows];
            multiply_tiles<TILE>(s, queries, keys, p.dim);
#pragma unroll
            for (int i = 0; i < rows; i++)
#pragma unroll
                for (int j = 0; j < rows; j++) {
                    const u32 own = at.y + SIDE * i;
                    const i32 position = positions[at.x + SIDE * j];
                    if (own < met && sees(p.position + (i32)(first + own), position, p.window))
                        sum[j] += expf(s[i][j] * p.scale - log_sums[own]);
                }
        }
    }
#pragma unroll
    for (int j = 0; j < rows; j++) sums[at.y * TILE + at.x + SIDE * j] = sum[j];
    __syncthreads();
    if (threadIdx.x >= count) return;
    float total = 0.0f;
    for (int i = 0; i < SIDE; i++) total += sums[i * TILE + threadIdx.x];
    p.weights[(u64)row * p.filled + start + threadIdx.x] = total / (float)p.group;
}

/// Grid: tiles of slots, kv heads, sequences.
KERNEL __launch_bounds__(THREADS) replay_weights_32(const __grid_constant__ ReplayWeightsParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    let_next_start();
    wait_for_inputs();
    sum_weights<32>(p, shared);
}
KERNEL __launch_bounds__(THREADS) replay_weights_16(const __grid_constant__ ReplayWeightsParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    let_next_start();
    wait_for_inputs();
    sum_weights<16>(p, shared);
}
