// ptx[90a]: bf16_64 -DPAGE=bf16 -DHEAD_DIM=64
// ptx[90a]: bf16_128 -DPAGE=bf16 -DHEAD_DIM=128
// ptx[90a]: f16_64 -DPAGE=f16 -DHEAD_DIM=64
// ptx[90a]: f16_128 -DPAGE=f16 -DHEAD_DIM=128
//
// As chunk.cu, with the products of Hopper: a block has 128 neighbouring rows of one chunk, and one
// head; see chunk_hopper.cuh.
//
// A row meets tiles in the order of positions, from a multiple of 128 on, and one that hides all
// its keys from a row changes none of its sums: where a chunk began does not show in the result.

#include "pages.cuh"

#include "hopper.cuh"

#include "chunk_softmax.cuh"

#include "dense_step.cuh"

#include "chunk.cuh"

typedef PAGE Tile;

#include "chunk_hopper.cuh"

/// Where a key lies, in bytes from the first page's keys or values; -1 where no row sees it.
DEVICE i64 locate(const ChunkParams &p, const Work &work, i32 position, i32 page) {
    const u32 offset = (u32)position % (u32)p.layer.page_tokens;
    const u64 row = row_in_page(p.layer, work.kv_head, offset);
    return page < 0 ? -1 : (i64)(page_start(p.layer, page) + row * (HEAD_DIM * sizeof(Tile)));
}

DEVICE void copy_tiles(const ChunkParams &p, const Work &work, const Barriers &barriers, u32 base,
                       int thread) {
    load_rows(base, rows_of(p, work, (const Tile *)p.q), thread);
    barrier_arrive_after_copies(barriers.queries());
    i32 key = work.first + thread;
    i32 page = page_of(p, work, key);
    for (i32 tile = 0; tile < work.tiles; tile++, key += KEYS) {
        const i64 location = locate(p, work, key, page);
        page = page_of(p, work, key + KEYS);
        const int stage = tile % STAGES;
        barrier_wait(barriers.keys_empty(stage), phase_of(tile) ^ 1);
        load_side(p.layer.pages + p.layer.key_offset, base + KEYS_AT + stage * TILE_BYTES, location,
                  thread);
        barrier_arrive_after_copies(barriers.keys_full(stage));
        barrier_wait(barriers.values_empty(stage), phase_of(tile) ^ 1);
        load_side(p.layer.pages + p.layer.value_offset, base + VALUES_AT + stage * TILE_BYTES,
                  location, thread);
        barrier_arrive_after_copies(barriers.values_full(stage));
    }
}

/// Hides keys by where they lie; the warpgroup's first row is at `position`.
struct HideKeys {
    i32 first, position, window;
    int thread;

    DEVICE i32 start_of(i32 tile) const { return first + tile * KEYS; }
    DEVICE bool any(i32 tile) const {
        const i32 start = start_of(tile);
        const bool hides_ahead = position < start + KEYS - 1;
        const bool hides_behind = window > 0 && start <= position + GROUP_ROWS - 1 - window;
        return hides_ahead || hides_behind;
    }
    DEVICE void operator()(float (&s)[KEY_COLUMNS][4], i32 tile) const {
        const i32 row = thread / 32 * 16 + thread % 32 / 4;
        hide(s, start_of(tile) + thread % 4 * 2, position + row, window);
    }
};

KERNEL __launch_bounds__(THREADS, 1) chunk_attention(const __grid_constant__ ChunkParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const u32 base = shared_address(shared);
    const Barriers barriers = {base + BARRIERS_AT};
    if (threadIdx.x == 0) init(barriers, WARPGROUP, WARPGROUP, WARPGROUP);
    wait_for_inputs();
    let_next_start();
    Work work;
    if (!find_work<KEYS>(p, work)) return;
    __syncthreads();
    if (warpgroup == 0) {
        give_registers<56>();
        copy_tiles(p, work, barriers, base, thread);
    } else {
        take_registers<224>();
        const int group = warpgroup - 1;
        if (work.rows <= group * GROUP_ROWS) return pass(barriers, work.tiles, thread);
        State state = {{{MINUS_INFINITY, MINUS_INFINITY}, {}}, {}};
        const HideKeys hide = {work.first, work.position + group * GROUP_ROWS, p.window, thread};
        attend(state, hide, p.scale, work.tiles, half_of(work.rows, base, group), barriers, base,
               thread);
        const i32 first = group * GROUP_ROWS + thread / 32 * 16;
        write_rows(p, work, state.softmax, state.sums, 1.0f, first, thread % 32);
    }
}
