// Rows of the hot cache copied out of it, and the list of those that are in host memory.

#include "hot_cache.cuh"

#ifdef WIDE
typedef Vec16 Unit;
DEVICE Unit load_unit(const u8 *address) {
    Vec16 x;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.word[0]), "=r"(x.word[1]), "=r"(x.word[2]), "=r"(x.word[3])
                 : "l"(address)
                 : "memory");
    return x;
}
DEVICE void store_unit(u8 *address, Unit x) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(address), "r"(x.word[0]),
                 "r"(x.word[1]), "r"(x.word[2]), "r"(x.word[3])
                 : "memory");
}
DEVICE Unit fill_unit(u32 bits) {
    return Vec16{{bits, bits, bits, bits}};
}
#else
typedef u32 Unit;
DEVICE Unit load_unit(const u8 *address) {
    return load_version(address);
}
DEVICE void store_unit(u8 *address, Unit x) {
    asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(address), "r"(x) : "memory");
}
DEVICE Unit fill_unit(u32 bits) {
    return bits;
}
#endif

/// Copies a row. More than two loads under way would cost registers, and warps with them.
template <u32 LANES> DEVICE void copy_row(u32 lane, const u8 *from, u8 *to, u32 row_bytes) {
    const u32 step = LANES * sizeof(Unit);
    u32 at = lane * sizeof(Unit);
    for (; at + step < row_bytes; at += 2 * step) {
        const Unit first = load_unit(from + at), second = load_unit(from + at + step);
        store_unit(to + at, first);
        store_unit(to + at + step, second);
    }
    if (at < row_bytes) store_unit(to + at, load_unit(from + at));
}

/// Hits whose rows are in host memory. Read in the order of their addresses they come four times
/// as fast: what translates these addresses for the bus remembers few of them.
struct HostHits {
    u64 *list;    // [count]: set, slot and index of a key, or null where none are listed
    u64 *ordered; // [count]
    u32 *buckets; // [HOST_BUCKETS]: how many are of each, zero before; then where each begins
    u32 *listed;  // how many; zero before
    u32 *ready;   // how many are ordered
    u32 bucket_scale;
};

enum { HOST_BUCKETS = 1 << 16 };

DEVICE u32 bucket_of(const HostHits &hits, u32 set) {
    return (u32)((u64)set * hits.bucket_scale >> 32);
}

DEVICE void list_host_hit(const HostHits &hits, u32 set, u32 slot, u32 index) {
    atomicAdd(hits.buckets + bucket_of(hits, set), 1);
    hits.list[atomicAdd(hits.listed, 1)] = (u64)set << 32 | (u64)slot << 28 | index;
}
