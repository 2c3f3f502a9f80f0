// ptx: any
//
// Walks over sets of the hot cache: which keys they have, and the age of stamps.

#include "hot_cache.cuh"

struct HotCacheSetsParams {
    HotCache cache;
    u64 *keys; // [(end - start) * WAYS]
    u32 *count;
    u32 start, end;
};

/// A stamp has 16 bits. What is older than this becomes this old, before it would look young.
enum { OLDEST = 0x7fff };

/// Grid: a thread for each slot of the sets. Lists keys in any order; `count` was zero.
KERNEL __launch_bounds__(256) hot_cache_keys(const __grid_constant__ HotCacheSetsParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 set = p.start + thread / WAYS;
    const u32 slot = thread % WAYS;
    if (set >= p.end) return;
    const u8 *line = set_at(p.cache, (u32)set);
    const u32 used = (u32)(load_key(line + 120) >> 32);
    if (used >> slot & 1) p.keys[atomicAdd(p.count, 1)] = load_key(line + 8 * slot);
}

/// Grid: a thread for each slot of the sets.
KERNEL __launch_bounds__(256) hot_cache_age(const __grid_constant__ HotCacheSetsParams p) {
    let_next_start();
    wait_for_inputs();
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 set = p.start + thread / WAYS;
    const u32 slot = thread % WAYS;
    if (set >= p.end) return;
    u8 *line = set_at(p.cache, (u32)set);
    const u32 word = load_version(line + 96 + 4 * (slot / 2));
    const u32 stamp = word >> 16 * (slot & 1) & 0xffff;
    if (((p.cache.now - stamp) & 0xffff) > OLDEST) store_stamp(line, slot, p.cache.now - OLDEST);
}
