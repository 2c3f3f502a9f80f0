// A row of scores is the work of several blocks, its parts, or of one.
//
// On Hopper the parts are a cluster: they run at the same time, meet at a barrier of their own and
// read each other's shared memory. Elsewhere a row has one part.

#if __CUDA_ARCH__ >= 900
#define CLUSTER __cluster_dims__(8, 1, 1)
constexpr u32 PARTS = 8;
#else
#define CLUSTER
constexpr u32 PARTS = 1;
#endif

DEVICE u32 my_part() {
    return blockIdx.x % PARTS;
}

/// Every thread of every part; what they wrote to shared memory is seen by all.
DEVICE void sync_parts() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

/// The same variable in another part's shared memory.
DEVICE u32 in_part(const void *pointer, u32 part) {
    u32 address = shared_address(pointer);
#if __CUDA_ARCH__ >= 900
    asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(part));
#endif
    return address;
}

#if __CUDA_ARCH__ >= 900
#define LOAD_PART "ld.shared::cluster"
#else
#define LOAD_PART "ld.shared"
#endif

DEVICE u64 load_from_part(const u64 *pointer, u32 part) {
    u64 x;
    asm volatile(LOAD_PART ".u64 %0, [%1];" : "=l"(x) : "r"(in_part(pointer, part)) : "memory");
    return x;
}
DEVICE u32 load_from_part(const u32 *pointer, u32 part) {
    u32 x;
    asm volatile(LOAD_PART ".u32 %0, [%1];" : "=r"(x) : "r"(in_part(pointer, part)) : "memory");
    return x;
}

/// Each part's number in the lane that has the part's index, 0 in the others. Such a load costs
/// about as much as one from another block's L2, so every warp issues just one.
DEVICE u64 load_from_parts(const u64 *pointer) {
    u32 lane = threadIdx.x % 32;
    return lane < PARTS ? load_from_part(pointer, lane) : 0;
}
