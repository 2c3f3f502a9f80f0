// ptx: wide -DWIDE
// ptx: narrow
//
// Rows of the hot cache that a query has found in host memory, in the order of their addresses.

#include "hot_cache_rows.cuh"

struct HotCacheHostParams {
    HotCache cache;
    HostHits hits;
    const u64 *keys; // [count]
    u8 *rows;        // [count, row_bytes]
};

/// One block: where the hits of each bucket begin.
KERNEL __launch_bounds__(1024) hot_cache_host_starts(const __grid_constant__ HotCacheHostParams p) {
    __shared__ u32 sums[1024];
    let_next_start();
    wait_for_inputs();
    const u32 thread = threadIdx.x, each = HOST_BUCKETS / 1024;
    u32 *mine = p.hits.buckets + thread * each;
    u32 sum = 0;
    for (u32 i = 0; i < each; ++i) sum += mine[i];
    sums[thread] = sum;
    for (u32 step = 1; step < 1024; step *= 2) {
        __syncthreads();
        const u32 before = thread >= step ? sums[thread - step] : 0;
        __syncthreads();
        sums[thread] += before;
    }
    u32 start = sums[thread] - sum;
    for (u32 i = 0; i < each; ++i) {
        const u32 count = mine[i];
        mine[i] = start;
        start += count;
    }
    if (thread == 1023) {
        *p.hits.ready = start;
        *p.hits.listed = 0;
    }
}

/// Blocks take hits in turn. The next kernel starts when they have ended: its few blocks would
/// share what multiprocessors are free before, instead of having one each.
KERNEL __launch_bounds__(256) hot_cache_host_order(const __grid_constant__ HotCacheHostParams p) {
    wait_for_inputs();
    const u32 count = *p.hits.ready, step = gridDim.x * blockDim.x;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {
        const u64 hit = p.hits.list[at];
        p.hits.ordered[atomicAdd(p.hits.buckets + bucket_of(p.hits, (u32)(hit >> 32)), 1)] = hit;
    }
}

/// Sixteen lanes bring a row: 256 bytes at once, so that few rows are under way at a time and
/// these are close together.
enum { LANES = 16 };

/// Blocks take hits in turn, in their order; few blocks, for the same reason.
KERNEL __launch_bounds__(128) hot_cache_host_rows(const __grid_constant__ HotCacheHostParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 bucket = thread; bucket < HOST_BUCKETS; bucket += threads) p.hits.buckets[bucket] = 0;
    const u32 count = *p.hits.ready, lane = thread % LANES, step = threads / LANES;
    const u32 group = 0xffffu << (threadIdx.x & 16);
    for (u32 at = thread / LANES; at < count; at += step) {
        const u64 hit = p.hits.ordered[at];
        const u32 set = (u32)(hit >> 32), slot = (u32)hit >> 28, index = (u32)hit & 0xfffffff;
        u8 *line = set_at(p.cache, set), *out = p.rows + (u64)index * p.cache.row_bytes;
        // A key that is here stays: who evicts keeps no rows in host memory.
        bool is_whole = false;
        while (!__all_sync(group, is_whole)) {
            const u32 version = load_version(version_of(line));
            copy_row<LANES>(lane, row_at(p.cache, set, slot), out, p.cache.row_bytes);
            __syncwarp(group);
            is_whole = load_version(version_of(line)) == version && !(version & 1);
        }
    }
}
