// ptx: f32
//
// The largest of many scores: each block looks at a segment of one query's and leaves the best of
// it. Where segments are several, their results are the scores of a second launch.
//
// The least score that is kept is found by its bits, eight at a time from the highest: five passes
// over the segment, which stays in the second-level cache. Of equal scores the first are kept, for
// what is kept stands in the order of the segment.

#include "prelude.cuh"

struct SelectItemsParams {
    const float *scores; // [queries, score_stride]
    const i32 *items;    // [queries, score_stride], or null: an item is its place
    float *out_scores;   // [queries, out_stride]; a segment has `most` places
    i32 *out_items;      // -1 where there are fewer
    u32 count;           // scores of a query
    u32 segment;         // scores of a block
    u32 most;
    u32 score_stride, out_stride, unused;
};

static const int THREADS = 1024, WARPS = THREADS / 32;

/// Orders as scores do, which are not -0; 0 for what is never kept.
DEVICE u32 key_of(float score) {
    if (!(score > __uint_as_float(0xff800000))) return 0;
    const u32 bits = __float_as_uint(score);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/// The least key that is kept, and how many that are equal to it.
struct Floor {
    u32 key, equal;
};

DEVICE Floor find_floor(const float *scores, u32 count, u32 most) {
    __shared__ u32 counts[256];
    __shared__ u32 chosen, above;
    Floor floor = {0, most};
    for (int shift = 24; shift >= 0; shift -= 8) {
        if (threadIdx.x < 256) counts[threadIdx.x] = 0;
        __syncthreads();
        for (u32 i = threadIdx.x; i < count; i += THREADS) {
            const u32 key = key_of(scores[i] + 0.0f);
            const bool is_meant = shift == 24 || key >> (shift + 8) == floor.key;
            if (key && is_meant) atomicAdd(&counts[key >> shift & 255], 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            u32 bin = 256, sum = 0;
            while (bin > 0 && sum + counts[bin - 1] < floor.equal) sum += counts[--bin];
            chosen = bin, above = sum;
        }
        __syncthreads();
        // Fewer than are wanted: all are kept.
        if (chosen == 0) return {0, 0};
        floor = {floor.key << 8 | (chosen - 1), floor.equal - above};
        __syncthreads();
    }
    return floor;
}

/// How many threads before this one say yes, and how many do in all.
DEVICE uint2 rank_in_block(bool yes) {
    __shared__ u32 of_warps[WARPS];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 votes = __ballot_sync(0xffffffff, yes);
    __syncthreads();
    if (lane == 0) of_warps[warp] = __popc(votes);
    __syncthreads();
    uint2 found = {(u32)__popc(votes & ((1u << lane) - 1)), 0};
    for (u32 other = 0; other < WARPS; other++) {
        if (other < warp) found.x += of_warps[other];
        found.y += of_warps[other];
    }
    return found;
}

/// Grid: segments, queries.
KERNEL __launch_bounds__(THREADS) select_items(const __grid_constant__ SelectItemsParams p) {
    wait_for_inputs();
    let_next_start();
    const u32 first = blockIdx.x * p.segment, count = min(p.count - first, p.segment);
    const u64 from = (u64)blockIdx.y * p.score_stride + first;
    const float *scores = p.scores + from;
    const i32 *items = p.items ? p.items + from : 0;
    const u64 to = (u64)blockIdx.y * p.out_stride + (u64)blockIdx.x * p.most;
    const Floor floor = find_floor(scores, count, p.most);
    u32 kept = 0, equal = 0;
    for (u32 start = 0; start < count; start += THREADS) {
        const u32 i = start + threadIdx.x;
        const float score = i < count ? scores[i] + 0.0f : 0.0f;
        const u32 key = i < count ? key_of(score) : 0;
        const bool is_equal = key && key == floor.key;
        if (!__syncthreads_or(key > floor.key || is_equal)) continue;
        const uint2 equals = rank_in_block(is_equal);
        const bool is_kept = key > floor.key || is_equal && equal + equals.x < floor.equal;
        equal += equals.y;
        const uint2 places = rank_in_block(is_kept);
        if (is_kept) {
            p.out_scores[to + kept + places.x] = score;
            p.out_items[to + kept + places.x] = items ? items[i] : (i32)(first + i);
        }
        kept += places.y;
    }
    for (u32 i = kept + threadIdx.x; i < p.most; i += THREADS) {
        p.out_scores[to + i] = __uint_as_float(0xff800000);
        p.out_items[to + i] = -1;
    }
}
