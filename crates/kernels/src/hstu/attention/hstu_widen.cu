// ptx[90a]: e4m3 -DPAGE=e4m3
// ptx[90a]: e5m2 -DPAGE=e5m2
// ptx[90a]: int8 -DPAGE=int8
//
// Brings what a layer's pages of bytes hold of a step's sequences into pages of bf16, one sequence
// after the other, for hstu_attention_hopper.cu; and writes tables of those.
//
// Bound by memory: each number is read once as a byte and written once.

#include "pages.cuh"

#include "hstu_pages.cuh"

struct HstuWidenParams {
    PageSide keys, values, wide_keys, wide_values;
    const i32 *block_tables;               // [seqs, table_pages]
    const i32 *past_tokens, *history_rows; // [seqs]
    i32 *wide_tables;                      // [seqs, table_pages]
    i32 table_pages, heads;
};

static const int THREADS = 128;

/// Grid: pages of a table, sequences, heads of both sides. Rows are whole eights of numbers.
KERNEL __launch_bounds__(THREADS) hstu_widen(const __grid_constant__ HstuWidenParams p) {
    let_next_start();
    wait_for_inputs();
    const i32 seq = blockIdx.y, entry = seq * p.table_pages + blockIdx.x;
    const bool is_value = blockIdx.z >= p.heads;
    const i32 head = blockIdx.z % p.heads;
    const PageSide from = is_value ? p.values : p.keys, to = is_value ? p.wide_values : p.wide_keys;
    const i32 first = blockIdx.x * from.page_tokens;
    const i32 rows = min(p.past_tokens[seq] + p.history_rows[seq] - first, from.page_tokens);
    if (rows <= 0) return;
    const i32 page = p.block_tables[entry], eights = from.dim / 8;
    if (blockIdx.z == 0 && threadIdx.x == 0) p.wide_tables[entry] = entry;
    for (i32 i = threadIdx.x; i < rows * eights; i += THREADS) {
        const i32 row = i / eights, column = i % eights * 8;
        const float scale = load_scale(from.scale_at(page, row, head));
        struct alignas(8) Eight {
            PAGE number[8];
        } eight = *(const Eight *)(from.row<PAGE>(page, row, head) + column);
        float x[8];
#pragma unroll
        for (int j = 0; j < 8; j++) x[j] = widen(eight.number[j]) * scale;
        store8(to.row<bf16>(entry, row, head) + column, x);
    }
}
