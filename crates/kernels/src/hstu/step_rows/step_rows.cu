// ptx: i32
//
// What the rows of a step are, from what its sequences are: whose, where keys and values go, what
// is seen, and which row of the position table is added. A history's rows see what is before them;
// candidates see the history and themselves.

#include "prelude.cuh"

struct StepRowsParams {
    const i32 *block_tables; // [seqs, table_pages]
    const i32 *live_tables;  // [seqs, live_table_pages]
    const i32 *past_tokens;  // [seqs]
    const i32 *live_starts;  // [seqs + 1]
    const i32 *history_rows; // [seqs]
    i32 *row_seqs;           // [rows]
    i32 *commit_slots;       // [rows]
    i32 *spans;              // [rows, 4]
    i32 *positions;          // [rows]
    u32 rows, seqs, table_pages, live_table_pages, page_tokens;
    u32 position_rows; // 0: there is no table
};

/// Grid: runs of 256 rows. Rows behind the last sequence belong to none.
KERNEL __launch_bounds__(256) step_rows(const __grid_constant__ StepRowsParams p) {
    wait_for_inputs();
    let_next_start();
    const i32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= p.rows) return;
    u32 seq = 0, end = p.seqs;
    while (seq < end) {
        const u32 middle = (seq + end) / 2;
        if (p.live_starts[middle + 1] <= row) seq = middle + 1;
        else end = middle;
    }
    const bool has_table = p.position_rows > 0;
    i32 slot = 0, position = has_table ? 0 : -1;
    int4 span = {0, 0, 0, 0};
    if (seq < p.seqs) {
        const i32 local = row - p.live_starts[seq], history = p.history_rows[seq];
        const i32 past = p.past_tokens[seq], candidate = local - history;
        const u32 at = past + min(local, history);
        if (candidate < 0) {
            const i32 page = p.block_tables[(u64)seq * p.table_pages + at / p.page_tokens];
            slot = page * p.page_tokens + at % p.page_tokens;
            span = {0, (i32)at + 1, 0, 0};
        } else {
            const i32 page = p.live_tables[(u64)seq * p.live_table_pages];
            slot = -1 - (page * (i32)p.page_tokens + candidate);
            span = {0, (i32)at, candidate, candidate + 1};
        }
        if (has_table) position = min(at, p.position_rows - 1);
    }
    p.row_seqs[row] = seq < p.seqs ? (i32)seq : -1;
    p.commit_slots[row] = slot;
    p.positions[row] = position;
    *(int4 *)(p.spans + 4 * (u64)row) = span;
}
