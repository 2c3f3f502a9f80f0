// ptx: i64
//
// The different keys of a batch, and which of them each key is. A table of open addressing holds
// indices of keys; whoever puts its index there first speaks for the key.

#include "prelude.cuh"

struct DedupeKeysParams {
    const u64 *keys;   // [count]
    u32 *table;        // [table_mask + 1], all EMPTY; left so
    u32 *slots;        // [count]: where in the table each key was found
    u64 *unique_keys;  // [count]
    u32 *inverse;      // [count]
    u32 *unique;       // how many; was zero
    u32 *next_unique;  // of the next call: set to zero
    u32 count, table_mask;
};

enum { EMPTY = ~0u };

DEVICE u64 mix(u64 x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    return x ^ x >> 32;
}

/// Grid: a thread for each key. The first of equal keys lists it, and gives it a number.
KERNEL __launch_bounds__(256) dedupe_keys(const __grid_constant__ DedupeKeysParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index == 0) *p.next_unique = 0;
    bool is_first = false;
    u64 key = 0;
    if (index < p.count) {
        key = p.keys[index];
        u32 slot = (u32)mix(key) & p.table_mask;
        while (true) {
            u32 holder = p.table[slot];
            if (holder == EMPTY) holder = atomicCAS(p.table + slot, EMPTY, index);
            is_first = holder == EMPTY;
            if (is_first || p.keys[holder] == key) break;
            slot = (slot + 1) & p.table_mask;
        }
        p.slots[index] = slot;
    }
    __syncwarp();
    const u32 first = __ballot_sync(~0u, is_first), lane = threadIdx.x % 32;
    u32 start = 0;
    if (lane == 0 && first) start = atomicAdd(p.unique, __popc(first));
    start = __shfl_sync(~0u, start, 0);
    if (is_first) {
        const u32 number = start + __popc(first & ((1u << lane) - 1));
        p.unique_keys[number] = key;
        p.inverse[index] = number;
    }
}

/// Grid: a thread for each key. The others take the number of the first.
KERNEL __launch_bounds__(256) dedupe_inverse(const __grid_constant__ DedupeKeysParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= p.count) return;
    const u32 holder = p.table[p.slots[index]];
    if (holder != index) p.inverse[index] = p.inverse[holder];
}

/// Grid: a thread for each key. Leaves the table empty for the next call.
KERNEL __launch_bounds__(256) dedupe_clear(const __grid_constant__ DedupeKeysParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < p.count) p.table[p.slots[index]] = EMPTY;
}
