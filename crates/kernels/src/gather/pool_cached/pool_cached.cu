// ptx: wide -DWIDE
// ptx: narrow
//
// Rows of keys straight from the hot cache, summed or averaged by slot into what a network reads.
//
// Eight lanes have a slot of a sample. They read the row of each of its keys into registers, look
// whether it was whole, and add it up. A key that is not there counts as the table's default value,
// and a flag says that there was one. A row is read as `hot_cache_query.cu` reads it; it stays in
// registers, so that rows of more than 256 numbers do not come here. Bound by memory: keys and rows
// are read once.
//
// Where each slot has one key, a block's keys come into shared memory first, all at once: the bus
// carries long pieces of host memory several times as fast as single keys.

#include "hot_cache_rows.cuh"

struct PoolCachedParams {
    HotCache cache;     // `now` is not looked at
    const void *keys;   // [keys]: u64, or u32 if they are narrow
    const i32 *offsets; // [segments + 1], or null: a key for each
    u8 *out;            // of `out_type`, rows of `out_stride` numbers; each has `slots` segments
    volatile u32 *missed; // becomes 1 where a key was not there
    const u32 *now;     // counts queries
    u32 segments, slots, out_stride, out_type;
    float default_value;
    u32 means; // whether sums are divided
    u32 stamps; // whether the last use of a key is of interest
    u32 zero;
    u32 is_narrow;
    u32 block_segments; // of a block, where each has one key: a multiple of its groups
};

enum { UNIT_NUMBERS = sizeof(Unit) / 4 };

DEVICE u32 word_of(const Unit &unit, u32 i) {
#ifdef WIDE
    return unit.word[i];
#else
    return unit;
#endif
}

/// Whether the row was there and is in `row` whole; not where `is_asked` is false.
template <u32 UNITS>
DEVICE bool read_row(const PoolCachedParams &p, u32 lane, bool is_asked, u64 key, u32 now,
                     Unit (&row)[UNITS]) {
    const HotCache &cache = p.cache;
    Probe probe = first_probe(cache, key);
    bool is_found = false;
    u32 tried = 0;
    while (__any_sync(WARP, is_asked)) {
        u8 *line = set_at(cache, probe.set);
        const SetWord word = is_asked ? load_word(line + 16 * lane) : SetWord{0, 0};
        const SetHead head = head_of(word);
        const i32 slot = find_slot(lane, word, head.used, key);
        const bool is_here = slot >= 0 && is_asked;
        u64 key_now = 0;
        u32 seen = 0;
        if (is_here) {
            // The key is read again after the version: the lanes' words need not be of one moment.
            key_now = load_key(line + 8 * slot);
            const u8 *from = row_at(cache, probe.set, slot);
#pragma unroll
            for (u32 i = 0; i < UNITS; i++) {
                const u32 at = (i * GROUP + lane) * sizeof(Unit);
                if (at < cache.row_bytes) row[i] = load_unit(from + at);
            }
#pragma unroll
            for (u32 i = 0; i < UNITS * UNIT_NUMBERS; i++)
                seen |= word_of(row[i / UNIT_NUMBERS], i % UNIT_NUMBERS);
        }
        // The version is asked for when the row has come: its address waits for the row.
        const u8 *version_at = version_of(line) + (seen & p.zero);
        const u32 version = is_here ? load_version(version_at) : 0;
        const bool is_whole = version == head.version && !(version & 1) && key_now == key;
        const bool is_read = group_ballot(is_whole) == 0xff;
        if (is_here && is_read) {
            if (p.stamps) stamp_slot(now, lane, line, word, slot);
            is_found = true;
            is_asked = false;
        } else if (slot < 0) {
            is_asked = is_asked && head.used & OVERFLOWED && ++tried < cache.set_count;
            probe.set = next_set(cache, probe);
        }
    }
    return is_found;
}

DEVICE void store_number(const PoolCachedParams &p, u64 at, float x) {
    if (p.out_type == ACT_F32) ((float *)p.out)[at] = x;
    else if (p.out_type == ACT_F16) ((f16 *)p.out)[at] = round_to<f16>(x);
    else ((bf16 *)p.out)[at] = round_to<bf16>(x);
}

DEVICE u64 key_at(const PoolCachedParams &p, u32 at) {
    return p.is_narrow ? ((const u32 *)p.keys)[at] : ((const u64 *)p.keys)[at];
}

/// Four neighbours at once, where they lie so that it is right.
DEVICE void store_unit_of(const PoolCachedParams &p, u64 at, const float *x) {
#ifdef WIDE
    if (p.out_type != ACT_F32 && (((u64)p.out + at * 2) & 7) == 0) {
        const bool is_f16 = p.out_type == ACT_F16;
        uint2 pairs;
        pairs.x = is_f16 ? pack<f16>(x[0], x[1]) : pack<bf16>(x[0], x[1]);
        pairs.y = is_f16 ? pack<f16>(x[2], x[3]) : pack<bf16>(x[2], x[3]);
        *(uint2 *)(p.out + at * 2) = pairs;
        return;
    }
#endif
#pragma unroll
    for (u32 i = 0; i < UNIT_NUMBERS; i++) store_number(p, at + i, x[i]);
}

template <u32 UNITS>
DEVICE void store_segment(const PoolCachedParams &p, u32 segment, u32 lane,
                          const float (&x)[UNITS * UNIT_NUMBERS]) {
    const u32 dim = p.cache.row_bytes / 4;
    const u64 first = (u64)(segment / p.slots) * p.out_stride + segment % p.slots * dim;
#pragma unroll
    for (u32 i = 0; i < UNITS; i++) {
        const u32 column = (i * GROUP + lane) * UNIT_NUMBERS;
        if (column >= dim) break;
        store_unit_of(p, first + column, x + i * UNIT_NUMBERS);
    }
}

enum { MOST_SEGMENTS = 128 };

/// A key in each slot.
template <u32 UNITS> DEVICE void pool_single(const PoolCachedParams &p) {
    let_next_start();
    wait_for_inputs();
    __shared__ u64 keys[MOST_SEGMENTS];
    const u32 lane = threadIdx.x % GROUP, first = blockIdx.x * p.block_segments;
    if (threadIdx.x < p.block_segments && first + threadIdx.x < p.segments)
        keys[threadIdx.x] = key_at(p, first + threadIdx.x);
    __syncthreads();
    const u32 now = *p.now;
    for (u32 at = threadIdx.x / GROUP; at < p.block_segments; at += blockDim.x / GROUP) {
        const u32 segment = first + at;
        const bool is_mine = segment < p.segments;
        Unit row[UNITS] = {};
        const bool is_found = read_row(p, lane, is_mine, is_mine ? keys[at] : 0, now, row);
        if (!is_mine) continue;
        if (!is_found && lane == 0) *p.missed = 1;
        float x[UNITS * UNIT_NUMBERS];
#pragma unroll
        for (u32 i = 0; i < UNITS * UNIT_NUMBERS; i++) {
            const u32 word = word_of(row[i / UNIT_NUMBERS], i % UNIT_NUMBERS);
            x[i] = is_found ? __uint_as_float(word) : p.default_value;
        }
        store_segment<UNITS>(p, segment, lane, x);
    }
}

/// Any number of keys in each slot.
template <u32 UNITS> DEVICE void pool_several(const PoolCachedParams &p) {
    let_next_start();
    wait_for_inputs();
    const u32 lane = threadIdx.x % GROUP;
    const u32 segment = blockIdx.x * (blockDim.x / GROUP) + threadIdx.x / GROUP;
    const bool is_mine = segment < p.segments;
    const u32 begin = is_mine ? p.offsets[segment] : 0, end = is_mine ? p.offsets[segment + 1] : 0;
    const u32 now = *p.now;
    float sums[UNITS * UNIT_NUMBERS] = {};
    bool is_missed = false;
    for (u32 at = begin; __any_sync(WARP, at < end); at++) {
        const bool is_asked = at < end;
        Unit row[UNITS] = {};
        const bool is_found = read_row(p, lane, is_asked, is_asked ? key_at(p, at) : 0, now, row);
        if (!is_asked) continue;
        is_missed |= !is_found;
#pragma unroll
        for (u32 i = 0; i < UNITS * UNIT_NUMBERS; i++) {
            const u32 word = word_of(row[i / UNIT_NUMBERS], i % UNIT_NUMBERS);
            sums[i] += is_found ? __uint_as_float(word) : p.default_value;
        }
    }
    if (!is_mine) return;
    if (is_missed && lane == 0) *p.missed = 1;
    const float factor = p.means && end - begin > 1 ? 1.0f / (float)(end - begin) : 1.0f;
#pragma unroll
    for (u32 i = 0; i < UNITS * UNIT_NUMBERS; i++) sums[i] *= factor;
    store_segment<UNITS>(p, segment, lane, sums);
}

/// Grid: `block_segments` a block. Of rows of so many numbers at most.
KERNEL __launch_bounds__(128, 12) pool_single_32(const __grid_constant__ PoolCachedParams p) {
    pool_single<32 / GROUP / UNIT_NUMBERS>(p);
}
KERNEL __launch_bounds__(128, 10) pool_single_128(const __grid_constant__ PoolCachedParams p) {
    pool_single<128 / GROUP / UNIT_NUMBERS>(p);
}
KERNEL __launch_bounds__(128) pool_single_256(const __grid_constant__ PoolCachedParams p) {
    pool_single<256 / GROUP / UNIT_NUMBERS>(p);
}

/// Grid: eight lanes for each segment. As above.
KERNEL __launch_bounds__(128) pool_several_32(const __grid_constant__ PoolCachedParams p) {
    pool_several<32 / GROUP / UNIT_NUMBERS>(p);
}
KERNEL __launch_bounds__(128) pool_several_128(const __grid_constant__ PoolCachedParams p) {
    pool_several<128 / GROUP / UNIT_NUMBERS>(p);
}
KERNEL __launch_bounds__(128) pool_several_256(const __grid_constant__ PoolCachedParams p) {
    pool_several<256 / GROUP / UNIT_NUMBERS>(p);
}
