// ptx: wide -DWIDE
// ptx: narrow
//
// Rows of keys from the hot cache. A key that is not there gets the table's default value, and is
// listed with its index. In a large query, rows that are in host memory are only listed: they are
// read in the order of their addresses afterwards.

#include "hot_cache_rows.cuh"

struct HotCacheQueryParams {
    HotCache cache;
    const u64 *keys;   // [count]
    u8 *rows;          // [count, row_bytes]
    u64 *missed_keys;  // [count]
    u32 *missed_at;    // [count]
    u32 *missed;       // how many
    u32 *next_missed;  // of the next query: set to zero
    const u32 *unique; // how many keys there are; null: all of `count`
    HostHits host_hits;
    u32 count;
    float default_value;
    u32 stamps; // whether the last use of a key is of interest
};

/// Whether the row was there and is copied whole, or listed; not where `is_asked` is false.
DEVICE bool query_row(const HotCacheQueryParams &p, u32 lane, bool is_asked, u64 key, u32 index) {
    const HotCache &cache = p.cache;
    u8 *out = p.rows + (u64)index * cache.row_bytes;
    Probe probe = first_probe(cache, key);
    bool is_found = false;
    u32 tried = 0;
    while (__any_sync(WARP, is_asked)) {
        u8 *line = set_at(cache, probe.set);
        const SetWord word = is_asked ? load_word(line + 16 * lane) : SetWord{0, 0};
        const SetHead head = head_of(word);
        const i32 slot = find_slot(lane, word, head.used, key);
        if (p.host_hits.list && slot >= (i32)cache.device_ways) {
            if (lane == 0) list_host_hit(p.host_hits, probe.set, slot, index);
            is_found = true;
            is_asked = false;
        }
        const bool is_here = slot >= 0 && is_asked;
        u64 key_now = 0;
        if (is_here) {
            // The key is read again after the version: the lanes' words need not be of one moment.
            key_now = load_key(line + 8 * slot);
            copy_row<GROUP>(lane, row_at(cache, probe.set, slot), out, cache.row_bytes);
        }
        // A lane issues this when its loads above have come, because its stores needed them.
        __syncwarp();
        const u32 version = is_here ? load_version(version_of(line)) : 0;
        const bool is_whole = version == head.version && !(version & 1) && key_now == key;
        const bool is_copied = group_ballot(is_whole) == 0xff;
        if (is_here && is_copied) {
            if (p.stamps) stamp_slot(cache.now, lane, line, word, slot);
            is_found = true;
            is_asked = false;
        } else if (slot < 0) {
            is_asked = is_asked && head.used & OVERFLOWED && ++tried < cache.set_count;
            probe.set = next_set(cache, probe);
        }
    }
    return is_found;
}

/// Grid: a group of eight lanes for each key.
KERNEL __launch_bounds__(128, 16) hot_cache_query(const __grid_constant__ HotCacheQueryParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 lane = threadIdx.x % GROUP;
    const u32 index = blockIdx.x * (blockDim.x / GROUP) + threadIdx.x / GROUP;
    if (blockIdx.x == 0 && threadIdx.x == 0) *p.next_missed = 0;
    const bool is_asked = index < (p.unique ? *p.unique : p.count);
    const u64 key = is_asked ? p.keys[index] : 0;
    const bool is_missed = !query_row(p, lane, is_asked, key, index) && is_asked;
    if (is_missed) {
        u8 *out = p.rows + (u64)index * p.cache.row_bytes;
        const Unit unit = fill_unit(__float_as_uint(p.default_value));
        for (u32 at = lane * sizeof(Unit); at < p.cache.row_bytes; at += GROUP * sizeof(Unit)) {
            store_unit(out + at, unit);
        }
    }
    __syncwarp();
    const u32 missed = __ballot_sync(WARP, is_missed && lane == 0);
    if (!missed) return;
    u32 start = 0;
    const u32 thread = threadIdx.x % 32;
    if (thread == 0) start = atomicAdd(p.missed, __popc(missed));
    start = __shfl_sync(WARP, start, 0);
    if (is_missed && lane == 0) {
        const u32 at = start + __popc(missed & ((1u << thread) - 1));
        p.missed_keys[at] = key;
        p.missed_at[at] = index;
    }
}
