// ptx: wide -DWIDE
// ptx: narrow
//
// Rows into the hot cache: a key that is there gets the new row; one that is not takes a free
// slot, or the slot of the key that was asked for longest ago, or one of the next set, or nothing,
// as the launch says.

#include "hot_cache.cuh"

enum WriteMode { WRITE_EVICT, WRITE_RESIDENT, WRITE_PRESENT };

struct HotCacheWriteParams {
    HotCache cache;
    const u64 *keys;   // [count]
    const u8 *rows;    // [count, row_bytes]
    const u32 *row_at; // [count]: which row a key has; null: its own index
    u32 *refused;      // how many keys found no slot
    u32 count;
    u32 mode;
};

#ifdef WIDE
typedef Vec16 Unit;
#else
typedef u32 Unit;
#endif

/// Tries to make the version odd; the one before, or 1 where another has the set.
DEVICE u32 lock_set(u8 *line) {
    const u32 version = load_version(version_of(line));
    if (version & 1) return 1;
    u32 before;
    asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "l"(version_of(line)), "r"(version), "r"(version + 1)
                 : "memory");
    return before == version ? version : 1;
}

DEVICE void unlock_set(u8 *line, u32 version) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(version_of(line)), "r"(version + 2)
                 : "memory");
}

/// The slot that was asked for longest ago; of several the first.
DEVICE u32 oldest_slot(u32 lane, const SetWord &word, u32 now) {
    // The last two lanes have the stamps, eight and four.
    u32 oldest = 0;
    const u32 count = lane == GROUP - 2 ? 8 : lane == GROUP - 1 ? 4 : 0;
    for (u32 i = 0; i < count; ++i) {
        const u32 stamp = (u32)((i < 4 ? word.low : word.high) >> 16 * (i & 3)) & 0xffff;
        const u32 slot = (lane - (GROUP - 2)) * 8 + i;
        oldest = max(oldest, ((now - stamp) & 0xffff) << 8 | (255 - slot));
    }
    const u32 first = __shfl_sync(WARP, oldest, GROUP - 2, GROUP);
    const u32 second = __shfl_sync(WARP, oldest, GROUP - 1, GROUP);
    return 255 - (max(first, second) & 255);
}

DEVICE void copy_row(u32 lane, const u8 *from, u8 *to, u32 row_bytes) {
    for (u32 at = lane * sizeof(Unit); at < row_bytes; at += GROUP * sizeof(Unit)) {
        *(Unit *)(to + at) = *(const Unit *)(from + at);
    }
}

/// Writes what is new in a set that this group has locked: the row, its key, its stamp.
DEVICE void change_set(const HotCacheWriteParams &p, u32 lane, u32 set, u32 used, u32 slot,
                       bool is_new, u64 key, const u8 *row) {
    u8 *line = set_at(p.cache, set);
    copy_row(lane, row, row_at(p.cache, set, slot), p.cache.row_bytes);
    if (is_new && lane == 0) {
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(line + 8 * slot), "l"(key)
                     : "memory");
        store_used(line, used | 1u << slot);
    }
    if (p.mode != WRITE_PRESENT && lane == 1) store_stamp(line, slot, p.cache.now);
}

/// A set has room for a key that is nowhere, though the next one might have more: below this the
/// next one is not even looked at. With 9 of 12, at 85% of all slots used, a key is found in 1.14
/// sets on average and one in 2000 in a third.
enum { EASY_SLOTS = 9 };

/// Whether a key that is new should go on to the next set, which has more room.
DEVICE bool goes_on(const HotCache &cache, const Probe &probe, u32 used) {
    const u32 count = __popc(used & USED_MASK);
    if (count == WAYS) return true;
    if (count < EASY_SLOTS) return false;
    const u8 *next = set_at(cache, next_set(cache, probe));
    return __popc((u32)(load_key(next + 120) >> 32) & USED_MASK) < count;
}

/// What a launch does with a set that it has locked.
struct Change {
    /// Where the row goes; -1: nowhere.
    i32 slot;
    bool marks, ends, looks_on, goes_back;
};

/// Decides for a key with what its set says. `is_nowhere`: all sets it may be in were looked at;
/// `tried`: how many sets came before this one.
DEVICE Change decide(const HotCacheWriteParams &p, const Probe &probe, u32 used, i32 found,
                     u32 oldest, bool is_nowhere, u32 tried) {
    const u32 free = ~used & USED_MASK;
    const i32 first_free = __ffs(free) - 1;
    if (found >= 0) return Change{found, false, true, false, false};
    if (p.mode == WRITE_EVICT) {
        return Change{free ? first_free : (i32)oldest, false, true, false, false};
    }
    if (!is_nowhere && used & OVERFLOWED) return Change{-1, false, false, true, false};
    if (p.mode == WRITE_PRESENT) return Change{-1, false, true, false, false};
    if (!is_nowhere && tried > 0) return Change{-1, false, false, false, true};
    const bool stays = tried > 0 ? free != 0 : !goes_on(p.cache, probe, used);
    if (stays) return Change{first_free, false, true, false, false};
    return Change{-1, true, false, true, false};
}

/// Grid: a group of eight lanes for each key.
KERNEL __launch_bounds__(256) hot_cache_write(const __grid_constant__ HotCacheWriteParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 lane = threadIdx.x % GROUP;
    const u32 index = blockIdx.x * (blockDim.x / GROUP) + threadIdx.x / GROUP;
    bool is_asked = index < p.count;
    const u64 key = is_asked ? p.keys[index] : 0;
    const u64 row_index = p.row_at && is_asked ? p.row_at[index] : index;
    const u8 *row = p.rows + row_index * p.cache.row_bytes;
    const Probe first = first_probe(p.cache, key);
    Probe probe = first;
    u32 tried = 0;
    bool is_nowhere = false;
    while (__any_sync(WARP, is_asked)) {
        u8 *line = set_at(p.cache, probe.set);
        u32 version = is_asked && lane == 0 ? lock_set(line) : 1;
        version = __shfl_sync(WARP, version, 0, GROUP);
        const bool has_set = !(version & 1);
        const SetWord word = has_set ? load_word(line + 16 * lane) : SetWord{0, 0};
        const u32 used = head_of(word).used;
        const i32 found = find_slot(lane, word, used, key);
        const u32 oldest = oldest_slot(lane, word, p.cache.now);
        Change change{-1, false, false, false, false};
        if (has_set) {
            change = decide(p, probe, used, found, oldest, is_nowhere, tried);
            if (change.slot >= 0) {
                change_set(p, lane, probe.set, used, change.slot, found < 0, key, row);
            }
            if (change.marks && lane == 0) store_used(line, used | OVERFLOWED);
            // Every lane's writes come before the version that says they are done.
            __threadfence();
        }
        __syncwarp();
        if (has_set && lane == 0) unlock_set(line, version);
        if (change.goes_back) {
            is_nowhere = true;
            tried = 0;
            probe = first;
        }
        if (change.looks_on) {
            is_nowhere |= change.marks;
            probe.set = next_set(p.cache, probe);
            if (++tried == p.cache.set_count) {
                if (lane == 0) atomicAdd(p.refused, 1);
                change.ends = true;
            }
        }
        if (change.ends) is_asked = false;
        if (!__any_sync(WARP, has_set)) __nanosleep(64);
    }
}
