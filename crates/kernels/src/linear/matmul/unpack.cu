// ptx: s4_bf16 -DWEIGHTS=S4Block -DOUT=bf16
// ptx: q4_bf16 -DWEIGHTS=Q4Block -DOUT=bf16
// ptx: q6_bf16 -DWEIGHTS=Q6Block -DOUT=bf16
// ptx: q8_bf16 -DWEIGHTS=Q8Block -DOUT=bf16
// ptx: s4_f16 -DWEIGHTS=S4Block -DOUT=f16
// ptx: q4_f16 -DWEIGHTS=Q4Block -DOUT=f16
// ptx: q6_f16 -DWEIGHTS=Q6Block -DOUT=f16
// ptx: q8_f16 -DWEIGHTS=Q8Block -DOUT=f16
//
// Rows of a packed matrix as numbers in rows, for products of many tokens.
//
// Bound by memory. A block of threads takes neighbouring blocks of a panel, which are one run of
// bytes: it brings all of them at once to shared memory, and there gathers rows.
#include "prelude.cuh"
#include "packed.cuh"

struct UnpackParams {
    const u8 *packed;
    OUT *out; // `[rows, columns]`
    u32 first_row, rows;
    u32 columns; // a multiple of 32
};

constexpr u32 THREADS = 256;
/// Blocks of a panel that a block of threads unpacks: two for each warp.
constexpr u32 BLOCKS = THREADS / 32 * 2;

KERNEL __launch_bounds__(THREADS) unpack(const __grid_constant__ UnpackParams p) {
    __shared__ alignas(16) u8 packed[BLOCKS * WEIGHTS::BYTES];
    const u32 panel = p.first_row / PANEL_ROWS + blockIdx.y;
    const u32 panel_blocks = p.columns / BLOCK_COLUMNS, first = blockIdx.x * BLOCKS;
    const u32 blocks = min(BLOCKS, panel_blocks - first);

    let_next_start();
    const u8 *from = p.packed + ((u64)panel * panel_blocks + first) * WEIGHTS::BYTES;
    for (u32 at = threadIdx.x * 16; at < blocks * WEIGHTS::BYTES; at += THREADS * 16)
        copy_async16(shared_address(packed) + at, from + at, true);
    copy_async_commit();
    // Packed weights are never written, but `out` may still be read by the kernel before this one.
    wait_for_inputs();
    copy_async_wait<0>();
    __syncthreads();

    // Eight lanes write 128 bytes of a row; reads of four rows at once meet in few banks.
    const u32 column = threadIdx.x / 32 * 2 * BLOCK_COLUMNS + threadIdx.x % 8 * 8;
    const u32 block = column / BLOCK_COLUMNS;
    if (block >= blocks) return;
#pragma unroll
    for (u32 i = 0; i < PANEL_ROWS; i += 4) {
        u32 row = i + threadIdx.x % 32 / 8;
        float x[8];
        WEIGHTS::eight(packed + block * WEIGHTS::BYTES, row, column % BLOCK_COLUMNS, x);
        // Rows before the first wrap around to large numbers.
        u32 to = panel * PANEL_ROWS + row - p.first_row;
        if (to < p.rows) store8(p.out + (u64)to * p.columns + first * BLOCK_COLUMNS + column, x);
    }
}
