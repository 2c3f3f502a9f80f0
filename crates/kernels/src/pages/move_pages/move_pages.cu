// ptx: any
//
// A range of bytes of many pages, between pinned host memory and the device's pool.
//
// The host's pages are read and written where they lie, over the bus, so what counts is how many
// bytes are on their way: a warp takes 4 KiB at once, all its loads before its first store, and
// asks for the list's next entry, which is on the host too, before those.

#include "prelude.cuh"

struct PageMove {
    u8 *host;
    u64 page;
};

struct MovePagesParams {
    u8 *pages;
    const PageMove *moves;
    u64 page_bytes;
    /// Of the range inside each page.
    u64 start;
    u64 bytes;
    u32 count;
};

constexpr u32 VECTORS = 8;
constexpr u64 CHUNK = 32 * VECTORS * sizeof(Vec16);

/// Read and written once: past the first-level cache.
DEVICE Vec16 load_passing(const u8 *address) {
    Vec16 x;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.word[0]), "=r"(x.word[1]), "=r"(x.word[2]), "=r"(x.word[3])
                 : "l"(address));
    return x;
}
DEVICE void store_passing(u8 *address, Vec16 x) {
    asm volatile("st.global.L1::no_allocate.v4.u32 [%4], {%0,%1,%2,%3};" ::"r"(x.word[0]),
                 "r"(x.word[1]), "r"(x.word[2]), "r"(x.word[3]), "l"(address)
                 : "memory");
}

/// At most a chunk, by one warp.
DEVICE void copy_chunk(u8 *to, const u8 *from, u32 bytes, u32 lane) {
    if (!fits_16((u64)to | (u64)from)) {
        for (u32 at = lane; at < bytes; at += 32) to[at] = from[at];
        return;
    }
    Vec16 vectors[VECTORS];
#pragma unroll
    for (u32 i = 0; i < VECTORS; ++i) {
        u32 at = (32 * i + lane) * (u32)sizeof(Vec16);
        if (at + sizeof(Vec16) <= bytes) vectors[i] = load_passing(from + at);
    }
#pragma unroll
    for (u32 i = 0; i < VECTORS; ++i) {
        u32 at = (32 * i + lane) * (u32)sizeof(Vec16);
        if (at + sizeof(Vec16) <= bytes) store_passing(to + at, vectors[i]);
    }
    u32 rest = bytes / sizeof(Vec16) * sizeof(Vec16) + lane;
    if (rest < bytes) to[rest] = from[rest];
}

template <bool TO_HOST> DEVICE void move_pages(const MovePagesParams &p) {
    wait_for_inputs();
    u32 lane = threadIdx.x % 32;
    u64 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    u64 page_chunks = (p.bytes + CHUNK - 1) / CHUNK, chunks = page_chunks * p.count;
    PageMove next = {};
    if (warp < chunks) next = p.moves[warp / page_chunks];
    for (u64 chunk = warp; chunk < chunks; chunk += warps) {
        PageMove move = next;
        if (chunk + warps < chunks) next = p.moves[(chunk + warps) / page_chunks];
        u64 start = chunk % page_chunks * CHUNK, left = p.bytes - start;
        u8 *host = move.host + p.start + start;
        u8 *page = p.pages + move.page * p.page_bytes + p.start + start;
        u32 bytes = (u32)(left < CHUNK ? left : CHUNK);
        copy_chunk(TO_HOST ? host : page, TO_HOST ? page : host, bytes, lane);
    }
}

KERNEL __launch_bounds__(512) gather_pages(const __grid_constant__ MovePagesParams p) {
    move_pages<false>(p);
}

KERNEL __launch_bounds__(512) scatter_pages(const __grid_constant__ MovePagesParams p) {
    move_pages<true>(p);
}
