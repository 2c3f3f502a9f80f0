// What every kernel may use: number types, vector loads, tensor-core and copy instructions.
//
// No header of the CUDA toolkit is needed; NVRTC gives the built-in variables and intrinsics.
// Kernels take one `Params` struct by value, whose fields are those of its Rust twin.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#define KERNEL extern "C" __global__ void
#define DEVICE __device__ __forceinline__

// ---- Overlap of one kernel's start with the end of the one before it (Hopper).
// A kernel launched with overlap must call `wait_for_inputs` before it reads what another kernel
// writes, or writes what another reads. Weights are written once at start and need no wait.

DEVICE void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel's blocks start as soon as this grid's blocks leave room for them.
DEVICE void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- Numbers. A half-width number is its bits; arithmetic is in f32.

struct bf16 {
    u16 bits;
};
struct f16 {
    u16 bits;
};
/// A type of activations that a launch names, as in arithmetic_class.rs.
enum ActType { ACT_F32, ACT_F16, ACT_BF16 };

DEVICE float widen(float x) {
    return x;
}
DEVICE float widen(bf16 x) {
    return __uint_as_float((u32)x.bits << 16);
}
DEVICE float widen(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

template <typename T> DEVICE T narrow(float x);
template <> DEVICE float narrow<float>(float x) {
    return x;
}
template <> DEVICE bf16 narrow<bf16>(float x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

/// What activations are rounded by: numbers too large for the type become infinite.
template <typename T> DEVICE T round_to(float x) {
    return narrow<T>(x);
}
template <> DEVICE f16 round_to<f16>(float x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
/// Saturates, as the pages of every device do; a NaN stays one.
template <> DEVICE f16 narrow<f16>(float x) {
    return round_to<f16>(x != x ? x : fminf(fmaxf(x, -65504.0f), 65504.0f));
}

/// Two numbers in one register, the first in the low half.
template <typename T> DEVICE u32 pack(float low, float high);
template <> DEVICE u32 pack<bf16>(float low, float high) {
    u32 y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
template <> DEVICE u32 pack<f16>(float low, float high) {
    u32 y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

template <typename T> DEVICE float low_of(u32 pair) {
    T x;
    x.bits = (u16)pair;
    return widen(x);
}
template <typename T> DEVICE float high_of(u32 pair) {
    T x;
    x.bits = (u16)(pair >> 16);
    return widen(x);
}

/// (x & mask) | bits, as one instruction: of two constants the compiler would make two.
DEVICE u32 pick(u32 x, u32 mask, u32 bits) {
    u32 y;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(y) : "r"(x), "r"(mask), "r"(bits));
    return y;
}

/// Sums of two pairs.
template <typename T> DEVICE u32 add_pairs(u32 a, u32 b);
template <> DEVICE u32 add_pairs<bf16>(u32 a, u32 b) {
    u32 y;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(0x3f803f80), "r"(b));
    return y;
}
template <> DEVICE u32 add_pairs<f16>(u32 a, u32 b) {
    u32 y;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

// ---- Memory.

struct alignas(16) Vec16 {
    u32 word[4];
};

/// Bytes that are read once: they pass the first-level cache by.
DEVICE Vec16 load_once(const void *address) {
    Vec16 x;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.word[0]), "=r"(x.word[1]), "=r"(x.word[2]), "=r"(x.word[3])
                 : "l"(address));
    return x;
}
DEVICE Vec16 load16(const void *address) {
    return *(const Vec16 *)address;
}
DEVICE void store16(void *address, Vec16 x) {
    *(Vec16 *)address = x;
}
/// Bytes that another block of this launch may have written: read past the first-level cache.
DEVICE Vec16 load_fresh(const Vec16 *address) {
    Vec16 x;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.word[0]), "=r"(x.word[1]), "=r"(x.word[2]), "=r"(x.word[3])
                 : "l"(address)
                 : "memory");
    return x;
}
DEVICE float load_fresh(const float *address) {
    float x;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(address) : "memory");
    return x;
}
/// Adds one to a counter of all blocks and gives what it was. An addition would be joined among
/// lanes by the compiler, which waits for the answer at once; this waits where it is used.
DEVICE u32 count_up(u32 *counter) {
    u32 before;
    asm volatile("atom.global.inc.u32 %0, [%1], 0x7fffffff;"
                 : "=r"(before)
                 : "l"(counter)
                 : "memory");
    return before;
}

/// Asks for `bytes`, a multiple of 16, to be brought into the second-level cache (Hopper).
DEVICE void prefetch_to_l2(const void *address, u32 bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes)
                 : "memory");
#endif
}

/// Whether 16-byte accesses are right: give all addresses and byte strides, or-ed together.
DEVICE bool fits_16(u64 addresses_and_strides) {
    return addresses_and_strides % 16 == 0;
}

/// Eight neighbouring numbers, by accesses of 16 bytes.
template <typename T> DEVICE void load8(float out[8], const T *from) {
    Vec16 x = load16(from);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        out[2 * i] = low_of<T>(x.word[i]);
        out[2 * i + 1] = high_of<T>(x.word[i]);
    }
}
template <> DEVICE void load8<float>(float out[8], const float *from) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Vec16 x = load16(from + 4 * half);
#pragma unroll
        for (int i = 0; i < 4; ++i) out[4 * half + i] = __uint_as_float(x.word[i]);
    }
}
template <typename T> DEVICE void store8(T *to, const float x[8]) {
    Vec16 y;
#pragma unroll
    for (int i = 0; i < 4; ++i) y.word[i] = pack<T>(x[2 * i], x[2 * i + 1]);
    store16(to, y);
}
template <> DEVICE void store8<float>(float *to, const float x[8]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Vec16 y;
#pragma unroll
        for (int i = 0; i < 4; ++i) y.word[i] = __float_as_uint(x[4 * half + i]);
        store16(to + 4 * half, y);
    }
}

DEVICE u32 shared_address(const void *pointer) {
    return (u32)__cvta_generic_to_shared(pointer);
}

/// Copies 16 bytes to shared memory in the background; zeros when `is_there` is false.
DEVICE void copy_async16(u32 shared, const void *global, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
                 "r"(is_there ? 16 : 0)
                 : "memory");
}
/// As `copy_async16`, for bytes that are read once and whose neighbours are read next.
DEVICE void copy_async16_once(u32 shared, const void *global, bool is_there) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(shared),
                 "l"(global), "r"(is_there ? 16 : 0)
                 : "memory");
}
DEVICE void copy_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most `PENDING` of the groups committed by this thread are under way.
template <int PENDING> DEVICE void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// ---- Barriers in shared memory. A phase ends when all its arrivals have come and all announced
// bytes; phases have parities 0, 1, 0, and so on.

DEVICE void barrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes new barriers known to bulk copies; `__syncthreads` must follow.
DEVICE void barriers_are_ready() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
DEVICE void barrier_arrive(u32 barrier) {
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(barrier) : "memory");
}
/// Arrives when all `copy_async16` of this thread up to here are done.
DEVICE void barrier_arrive_after_copies(u32 barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
DEVICE void barrier_wait(u32 barrier, u32 parity) {
#if __CUDA_ARCH__ >= 900
#define TRY_WAIT "mbarrier.try_wait.parity.shared.b64"
#else
#define TRY_WAIT "mbarrier.test_wait.parity.shared.b64"
#endif
    u32 is_over;
    do {
        asm volatile("{ .reg .pred p; " TRY_WAIT " p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_over)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!is_over);
#undef TRY_WAIT
}

/// A barrier of some warps of a block, `THREADS` in all; numbers from 1 on tell barriers apart.
template <int THREADS> DEVICE void sync_part(int number) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory");
}

#if __CUDA_ARCH__ >= 900
/// Arrives, and announces bytes that bulk copies will bring.
DEVICE void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], %1; }"
                 :
                 : "r"(barrier), "r"(bytes)
                 : "memory");
}
/// Copies a run of bytes, a multiple of 16, in the background; they count for the barrier.
DEVICE void copy_bulk(u32 shared, const void *global, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(shared),
                 "l"(global), "r"(bytes), "r"(barrier)
                 : "memory");
}
#endif

/// A matrix as the driver describes it to the copy engine, with the box that is copied at once.
struct alignas(64) TensorMap {
    u64 words[16];
};
#if __CUDA_ARCH__ >= 900
/// Copies the map's box from (row, 64 chunk) on in the background; what is outside comes as zeros.
/// The map has three dimensions: 64 columns, rows, and chunks of 64 columns.
DEVICE void copy_box(u32 shared, const TensorMap *map, int row, int chunk, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared),
                 "l"(map), "r"(0), "r"(row), "r"(chunk), "r"(barrier)
                 : "memory");
}
#endif

// ---- Tensor cores: c[16x8] += a[16x16] * b[16x8], c in f32.
//
// With g = lane / 4 and t = lane % 4 a lane holds, as pairs of neighbouring columns (rows of b):
// a: (g, 2t) (g+8, 2t) (g, 2t+8) (g+8, 2t+8) · b: (2t, g) (2t+8, g) · c: (g, 2t..) (g+8, 2t..)

template <typename T> DEVICE void mma(float c[4], const u32 a[4], const u32 b[2]);
/// The same for sums that begin with one number for each column: c = {first, second} in all rows.
template <typename T>
DEVICE void mma_onto(float c[4], const u32 a[4], const u32 b[2], float first, float second);

#define MMA(T)                                                                                     \
    template <> DEVICE void mma<T>(float c[4], const u32 a[4], const u32 b[2]) {                   \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #T "." #T ".f32 {%0,%1,%2,%3}, "     \
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                      \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));          \
    }                                                                                              \
    template <>                                                                                    \
    DEVICE void mma_onto<T>(float c[4], const u32 a[4], const u32 b[2], float first,               \
                            float second) {                                                        \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #T "." #T ".f32 {%0,%1,%2,%3}, "     \
                     "{%4,%5,%6,%7}, {%8,%9}, {%10,%11,%10,%11};"                                  \
                     : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),           \
                       "f"(first), "f"(second));                                                   \
    }
MMA(bf16)
MMA(f16)
#undef MMA

/// Four 8x8 matrices of half-width numbers; lane i gives the address of row i % 8 of matrix i / 8.
DEVICE void load_matrices(u32 out[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared)
                 : "memory");
}
DEVICE void load_matrices_transposed(u32 out[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared)
                 : "memory");
}

// ---- Sums over a warp, in one fixed order; every lane gets the result.

DEVICE float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}
DEVICE float warp_max(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

// ---- Random words that are a function of their index: Philox4x32-10, as in philox.rs.

DEVICE Vec16 philox(Vec16 counter, u64 seed) {
    u32 key_0 = (u32)seed, key_1 = (u32)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        u64 product_0 = 0xD2511F53ull * counter.word[0];
        u64 product_1 = 0xCD9E8D57ull * counter.word[2];
        counter.word[0] = (u32)(product_1 >> 32) ^ counter.word[1] ^ key_0;
        counter.word[1] = (u32)product_1;
        counter.word[2] = (u32)(product_0 >> 32) ^ counter.word[3] ^ key_1;
        counter.word[3] = (u32)product_0;
        key_0 += 0x9E3779B9u;
        key_1 += 0xBB67AE85u;
    }
    return counter;
}
