// What only the gradients of replay multiply and add, as in hopper.cuh. To be included after it.

/// d[64 x 64] += a[64 x 16] * b[16 x 64], or = without `adds`: both from tiles whose rows lie
/// across the product, so that each is read transposed.
template <typename T> DEVICE void multiply_both_across(float (&d)[8][4], u64 a, u64 b, bool adds);

#define ROW(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define MULTIPLY(T, NAME)                                                                          \
    template <>                                                                                    \
    DEVICE void multiply_both_across<T>(float (&d)[8][4], u64 a, u64 b, bool adds) {               \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                  \
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32." NAME "." NAME " "               \
                     "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "     \
                     "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "      \
                     "%30, %31}, %32, %33, p, 1, 1, 1, 1;\n}"                                      \
                     : ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7)              \
                     : "l"(a), "l"(b), "r"((int)adds)                                              \
                     : "memory");                                                                  \
    }
MULTIPLY(bf16, "bf16")
MULTIPLY(f16, "f16")
#undef MULTIPLY
#undef ROW

/// Adds f32 numbers in shared memory to others in global memory, in the background; what was
/// written there must have been fenced by `fence_for_products`. `bytes` are a multiple of 16.
DEVICE void reduce_bulk(float *to, u32 shared, u32 bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                     to),
                 "r"(shared), "r"(bytes)
                 : "memory");
}
DEVICE void reduce_bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until all that this thread committed has been read from shared memory.
DEVICE void reduce_bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
/// Waits until it is there.
DEVICE void reduce_bulk_wait() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
