// Sets of the hot cache, and how eight lanes of a warp work on one.
//
// A set is a line of 128 bytes: twelve keys, when each was last asked for, and a head with a
// version, which slots are used, and whether keys of this set went on to another. Rows lie apart,
// by set and slot. Whoever writes a set or its rows makes the version odd first and even
// afterwards; whoever reads a row looks at the version before and after, and reads again if it
// changed: no row is ever a mixture.
//
// A cache that evicts has a key in its first set or not at all. One that keeps every row goes on
// from a set that is marked, by a step that depends on the key.

#include "prelude.cuh"

enum { WAYS = 12, SET_BYTES = 128, GROUP = 8 };
enum { USED_MASK = (1 << WAYS) - 1, OVERFLOWED = 1 << 15 };

/// Twin of `HotCacheParams` in `cuda.rs`.
struct HotCache {
    u8 *sets;        // [set_count, SET_BYTES]
    u8 *device_rows; // [set_count, device_ways, row_bytes]
    u8 *host_rows;   // [set_count, WAYS - device_ways, row_bytes]
    u32 set_count, device_ways, row_bytes;
    u32 now;
};

struct SetHead {
    u32 version;
    u32 used;
};

/// What one lane has of a set: two keys, or stamps and the head.
struct SetWord {
    u64 low, high;
};

/// Past the first-level cache: other launches write beside this one.
DEVICE SetWord load_word(const u8 *address) {
    SetWord word;
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0,%1}, [%2];"
                 : "=l"(word.low), "=l"(word.high)
                 : "l"(address)
                 : "memory");
    return word;
}

DEVICE u64 load_key(const u8 *address) {
    u64 key;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(key) : "l"(address) : "memory");
    return key;
}

DEVICE u32 load_version(const u8 *address) {
    u32 version;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(version) : "l"(address) : "memory");
    return version;
}

/// Spreads keys over sets: close ids end far apart. (Evensen's rrxmrrxmsx_0.)
DEVICE u64 mix(u64 x) {
    x ^= (x >> 25 | x << 39) ^ (x >> 50 | x << 14);
    x *= 0xA24BAED4963EE407ull;
    x ^= (x >> 24 | x << 40) ^ (x >> 49 | x << 15);
    x *= 0x9FB21C651E98DF25ull;
    return x ^ x >> 28;
}

/// The sets a key may be in. Their number is a prime, so that the steps reach all of them.
struct Probe {
    u32 set, step;
};

DEVICE Probe first_probe(const HotCache &cache, u64 key) {
    const u64 hash = mix(key);
    const u32 step = (u32)((hash & 0xffffffff) * (cache.set_count - 1) >> 32);
    return Probe{(u32)__umul64hi(hash, cache.set_count), step + 1};
}

DEVICE u32 next_set(const HotCache &cache, const Probe &probe) {
    const u64 next = (u64)probe.set + probe.step;
    return (u32)(next < cache.set_count ? next : next - cache.set_count);
}

DEVICE u8 *set_at(const HotCache &cache, u32 set) {
    return cache.sets + (u64)set * SET_BYTES;
}

DEVICE u8 *version_of(u8 *set) {
    return set + 120;
}

DEVICE void store_half(u8 *address, u32 x) {
    asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(address), "h"((u16)x) : "memory");
}

DEVICE void store_stamp(u8 *set, u32 slot, u32 now) {
    store_half(set + 96 + 2 * slot, now);
}

DEVICE void store_used(u8 *set, u32 used) {
    store_half(set + 124, used);
}

DEVICE u8 *row_at(const HotCache &cache, u32 set, u32 slot) {
    const u32 device_ways = cache.device_ways, host_ways = WAYS - device_ways;
    if (slot < device_ways) {
        return cache.device_rows + ((u64)set * device_ways + slot) * cache.row_bytes;
    }
    return cache.host_rows + ((u64)set * host_ways + slot - device_ways) * cache.row_bytes;
}

// What follows is for whole warps: all lanes call it, each group for its own set. A group that is
// done goes along, so that four sets are under way at once and not one after the other.

enum { WARP = ~0u };

/// The head, which the last lane has.
DEVICE SetHead head_of(const SetWord &word) {
    const u64 head = __shfl_sync(WARP, word.high, GROUP - 1, GROUP);
    return SetHead{(u32)head, (u32)(head >> 32) & 0xffff};
}

/// What the lanes of a group say, one bit each.
DEVICE u32 group_ballot(bool says) {
    return __ballot_sync(WARP, says) >> (threadIdx.x & 24) & 0xff;
}

/// The slot with this key, or -1.
DEVICE i32 find_slot(u32 lane, const SetWord &word, u32 used, u64 key) {
    const u32 mine = used >> (2 * lane) & (lane < WAYS / 2 ? 3 : 0);
    const u32 low = group_ballot((mine & 1) && word.low == key);
    const u32 high = group_ballot((mine & 2) && word.high == key);
    if (low) return 2 * (__ffs(low) - 1);
    return high ? 2 * (__ffs(high) - 1) + 1 : -1;
}

/// Marks a slot as asked for now. The lane that has its stamp does so.
DEVICE void stamp_slot(u32 now, u32 lane, u8 *line, const SetWord &word, u32 slot) {
    if (lane != GROUP - 2 + slot / 8) return;
    const u64 stamps = slot / 4 == 1 ? word.high : word.low;
    if ((u16)(stamps >> 16 * (slot & 3)) != (u16)now) {
        store_stamp(line, slot, now);
    }
}
