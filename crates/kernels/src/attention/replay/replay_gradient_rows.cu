// ptx[90a]: bf16_64 -DTILE=bf16 -DHEAD_DIM=64
// ptx[90a]: bf16_128 -DTILE=bf16 -DHEAD_DIM=128
// ptx[90a]: f16_64 -DTILE=f16 -DHEAD_DIM=64
// ptx[90a]: f16_128 -DTILE=f16 -DHEAD_DIM=128
//
// What comes before and after replay_gradients.cu: images of queries and of the gradients of their
// results, and gradients of queries out of sums.
//
// f16 has no number below 6e-8, and gradients are that small. They are multiplied by a power of two
// that brings the largest to 8 and more, and what they become is divided by it at the end: all of
// it is linear in them. bf16 has the range of f32.
//
// Roofline: bound by memory; each row is read and written once.

#include "prelude.cuh"

#include "replay.cuh"

typedef TILE Tile;

#include "replay_gradients.cuh"

static const u32 THREADS = 256;
/// Lanes that have a row, eight numbers each.
static const u32 ROW_LANES = HEAD_DIM / 8;

/// The largest of a block's threads, for all of them.
DEVICE float block_max(float x) {
    __shared__ float of_warp[THREADS / 32];
    x = warp_max(x);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = of_warp[0];
#pragma unroll
    for (u32 i = 1; i < THREADS / 32; i++) x = fmaxf(x, of_warp[i]);
    return x;
}

/// Grid: MAXIMA blocks, of which each has some rows.
KERNEL __launch_bounds__(THREADS) replay_largest(const __grid_constant__ ReplayGradientParams p) {
    let_next_start();
    wait_for_inputs();
    float most = 0.0f;
    const u32 rows = p.seqs * p.tokens, columns = p.heads * HEAD_DIM;
    for (u32 row = blockIdx.x; row < rows; row += MAXIMA) {
        const float *d_out = p.d_out + row_of(p, row / p.tokens, row % p.tokens) * p.d_out_stride;
        for (u32 i = threadIdx.x; i < columns; i += THREADS) most = fmaxf(most, fabsf(d_out[i]));
    }
    most = block_max(most);
    if (threadIdx.x == 0) p.maxima[blockIdx.x] = most;
}

/// The power of two that brings a number to 8 and more, but below 16. What is so small that
/// its inverse has no place stays smaller.
DEVICE float factor_for(float most) {
    const u32 exponent = max(__float_as_uint(most) >> 23, 16u);
    // Nothing to be scaled, or no number.
    if (most == 0.0f || exponent == 255) return 1.0f;
    return __uint_as_float((257 - exponent) << 23);
}
DEVICE float factor_of(const ReplayGradientParams &p) {
    static_assert(MAXIMA == THREADS, "one for each thread");
    return p.maxima ? factor_for(block_max(p.maxima[threadIdx.x])) : 1.0f;
}

/// One row of a head, as eight lanes or sixteen have it.
struct Row {
    float query[8], d_out[8], out[8];
};

DEVICE void load_row(Row &row, const ReplayGradientParams &p, u32 seq, u32 token, u32 head,
                     u32 vector) {
    const u32 column = vector * 8;
    load8(row.query, (const Tile *)p.query + head_at(p, p.query_stride, seq, token, head) + column);
    load8(row.d_out, p.d_out + head_at(p, p.d_out_stride, seq, token, head) + column);
    load8(row.out, p.out + head_at(p, p.out_stride, seq, token, head) + column);
}

/// Scales and rounds the gradients of a row, and gives the lane's part of their mean.
DEVICE float round_gradients(Row &row, float factor) {
    float mean = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        row.d_out[i] = widen(round_to<Tile>(row.d_out[i] * factor));
        mean += row.d_out[i] * row.out[i];
    }
    return mean;
}

/// Makes the images of a tile, and zeros of its sums. Grid: tiles, heads, sequences.
KERNEL __launch_bounds__(THREADS) replay_prepare(const __grid_constant__ ReplayGradientParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 tile = blockIdx.x, head = blockIdx.y, seq = blockIdx.z;
    const float factor = factor_of(p);
    if (threadIdx.x == 0 && tile + head + seq == 0) *p.factor = factor;
    const u64 item = item_of(p, seq, head, tile);
    u8 *queries = p.query_images + item * IMAGE_BYTES, *d_out = p.d_out_images + item * IMAGE_BYTES;
    float *stats = p.stats + item * 2 * QUERIES, *sums = p.sums + item * TILE_NUMBERS;
    const u32 vector = threadIdx.x % ROW_LANES;
    for (u32 own = threadIdx.x / ROW_LANES; own < QUERIES; own += THREADS / ROW_LANES) {
        const u32 token = tile * QUERIES + own;
        const bool is_there = token < p.tokens;
        Row row = {};
        if (is_there) load_row(row, p, seq, token, head, vector);
        float mean = round_gradients(row, factor);
#pragma unroll
        for (int step = ROW_LANES / 2; step > 0; step /= 2)
            mean += __shfl_xor_sync(~0u, mean, step);
        const u32 at = swizzled(QUERY_PART_BYTES, own, vector);
        store8((Tile *)(queries + at), row.query);
        store8((Tile *)(d_out + at), row.d_out);
        store16(sums + own * HEAD_DIM + vector * 8, {});
        store16(sums + own * HEAD_DIM + vector * 8 + 4, {});
        if (vector > 0) continue;
        // An infinite sum leaves no share to rows that are not there.
        const float log_sum =
            is_there ? p.log_sums[row_of(p, seq, token) * p.heads + head] : INFINITE;
        stats[own] = log_sum * LOG2_E;
        stats[QUERIES + own] = mean;
    }
}

/// Gradients of queries out of sums. Of those of a tile a warpgroup of replay_gradients.cu has 64
/// queries or 64 columns. Grid: halves of tiles, heads, sequences.
KERNEL __launch_bounds__(128) replay_d_query(const __grid_constant__ ReplayGradientParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 tile = blockIdx.x / 2, half = blockIdx.x % 2, head = blockIdx.y, seq = blockIdx.z;
    const u32 lane = threadIdx.x % 32;
    const u32 own = threadIdx.x / 32 * 16 + lane / 4 + (QUERIES == 128 ? 64 * half : 0);
    const u32 column = lane % 4 * 2 + (QUERIES == 128 ? 0 : 64 * half);
    const float factor = p.scale / *p.factor;
    const float *sums = p.sums + item_of(p, seq, head, tile) * TILE_NUMBERS + half * 4096;
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        const float4 four = *(const float4 *)(sums + i * 512 + threadIdx.x * 4);
        const float2 pairs[2] = {{four.x * factor, four.y * factor},
                                 {four.z * factor, four.w * factor}};
#pragma unroll
        for (u32 j = 0; j < 2; j++) {
            const u32 token = tile * QUERIES + own + 8 * j;
            if (token >= p.tokens) continue;
            float *to = p.d_query + head_at(p, p.d_query_stride, seq, token, head);
            *(float2 *)(to + column + 8 * i) = pairs[j];
        }
    }
}
