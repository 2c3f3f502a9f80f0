// What only Hopper has: registers that warps hand over, and products of whole warpgroups (four
// warps) that run in the background. To be included after pages.cuh.

/// Some of a block's warps: `threads` of them call this with the same number.
DEVICE void sync_some(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/// Counts as having called `sync_some`, without waiting for the others.
DEVICE void arrive_some(int number, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/// Gives registers of this warpgroup to others of the block, or takes them.
template <int LEFT> DEVICE void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LEFT));
}
template <int WANTED> DEVICE void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(WANTED));
}

// ---- Products of a warpgroup: d[64 x N] += a[64 x 16] * b[16 x N], d in f32. Warp i has rows 16 i
// to 16 i + 15 of d, as in `mma`, and d[c] holds its columns 8 c to 8 c + 7.
//
// Tiles in shared memory are rows of 128 bytes, with vectors of 16 bytes exchanged: vector c of row
// r is where c ^ r % 8 would be. They start at multiples of 1024 bytes; wider rows are several.

/// Written by copies or stores, read by a product next.
DEVICE void fence_for_products() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// Before the first product, and after registers of one were changed.
DEVICE void products_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void products_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `PENDING` of the committed groups are under way.
template <int PENDING> DEVICE void products_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
/// Keeps the compiler from reading results before the wait above it.
template <int N> DEVICE void results_are_there(float (&d)[N][4]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])::"memory");
}

/// A tile whose rows lie along the sum: `stride` bytes from eight rows to the next eight. For one
/// whose rows lie across it, `leading` bytes from 128 bytes of a row to the next 128.
DEVICE u64 tile_descriptor(u32 shared, u32 leading, u32 stride) {
    return (u64)(shared >> 4 & 0x3fff) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 |
           (u64)1 << 62;
}

/// Both from tiles whose rows lie along the sum; without `adds`, d is overwritten.
template <typename T> DEVICE void multiply(float (&d)[16][4], u64 a, u64 b, bool adds);
template <typename T> DEVICE void multiply(float (&d)[8][4], u64 a, u64 b, bool adds);
/// a from registers, as in `mma`; b from a tile whose rows lie across the sum.
template <typename T> DEVICE void multiply_across(float (&d)[16][4], const u32 a[4], u64 b);
template <typename T> DEVICE void multiply_across(float (&d)[8][4], const u32 a[4], u64 b);
template <typename T> DEVICE void multiply_across(float (&d)[32][4], const u32 a[4], u64 b);

// The sums as operands, and their places in an instruction's text.
#define ROW(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define ROWS_8(d)                                                                                  \
    ROW(d[0]), ROW(d[1]), ROW(d[2]), ROW(d[3]), ROW(d[4]), ROW(d[5]), ROW(d[6]), ROW(d[7])
#define ROWS_16(d)                                                                                 \
    ROWS_8(d), ROW(d[8]), ROW(d[9]), ROW(d[10]), ROW(d[11]), ROW(d[12]), ROW(d[13]), ROW(d[14]),   \
        ROW(d[15])
#define ROWS_32(d)                                                                                 \
    ROWS_16(d), ROW(d[16]), ROW(d[17]), ROW(d[18]), ROW(d[19]), ROW(d[20]), ROW(d[21]),            \
        ROW(d[22]), ROW(d[23]), ROW(d[24]), ROW(d[25]), ROW(d[26]), ROW(d[27]), ROW(d[28]),        \
        ROW(d[29]), ROW(d[30]), ROW(d[31])
#define FIRST_32                                                                                   \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "            \
    "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NEXT_32                                                                                    \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
    "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LAST_64                                                                                    \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
    "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, "   \
    "%100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, "   \
    "%115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define MULTIPLY(T, NAME)                                                                          \
    template <> DEVICE void multiply<T>(float (&d)[16][4], u64 a, u64 b, bool adds) {              \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                  \
                     "wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " "              \
                     FIRST_32 NEXT_32 "}, %64, %65, p, 1, 1, 0, 0;\n}"                             \
                     : ROWS_16(d)                                                                  \
                     : "l"(a), "l"(b), "r"((int)adds)                                              \
                     : "memory");                                                                  \
    }                                                                                              \
    template <> DEVICE void multiply<T>(float (&d)[8][4], u64 a, u64 b, bool adds) {               \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                  \
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32." NAME "." NAME " "               \
                     FIRST_32 "}, %32, %33, p, 1, 1, 0, 0;\n}"                                     \
                     : ROWS_8(d)                                                                   \
                     : "l"(a), "l"(b), "r"((int)adds)                                              \
                     : "memory");                                                                  \
    }                                                                                              \
    template <> DEVICE void multiply_across<T>(float (&d)[32][4], const u32 a[4], u64 b) {         \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                    \
                     "wgmma.mma_async.sync.aligned.m64n256k16.f32." NAME "." NAME " "              \
                     FIRST_32 NEXT_32 LAST_64 "}, {%128, %129, %130, %131}, %132, p, 1, 1, 1;\n}"  \
                     : ROWS_32(d)                                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                          \
                     : "memory");                                                                  \
    }                                                                                              \
    template <> DEVICE void multiply_across<T>(float (&d)[16][4], const u32 a[4], u64 b) {         \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                    \
                     "wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " "              \
                     FIRST_32 NEXT_32 "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"               \
                     : ROWS_16(d)                                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                          \
                     : "memory");                                                                  \
    }                                                                                              \
    template <> DEVICE void multiply_across<T>(float (&d)[8][4], const u32 a[4], u64 b) {          \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                    \
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32." NAME "." NAME " "               \
                     FIRST_32 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"                       \
                     : ROWS_8(d)                                                                   \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                          \
                     : "memory");                                                                  \
    }

MULTIPLY(bf16, "bf16")
MULTIPLY(f16, "f16")

#undef MULTIPLY
#undef LAST_64
#undef NEXT_32
#undef FIRST_32
#undef ROWS_32
#undef ROWS_16
#undef ROWS_8
#undef ROW
