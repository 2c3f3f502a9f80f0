// ptx: bf16 -DACT=bf16 -DWEIGHTS=Dense
// ptx: s4_bf16 -DACT=bf16 -DWEIGHTS=Packed<S4<ACT>>
// ptx: q4_bf16 -DACT=bf16 -DWEIGHTS=Packed<Q4<ACT>>
// ptx: q6_bf16 -DACT=bf16 -DWEIGHTS=Packed<Q6<ACT>>
// ptx: q8_bf16 -DACT=bf16 -DWEIGHTS=Packed<Q8<ACT>>
// ptx: f16 -DACT=f16 -DWEIGHTS=Dense
// ptx: s4_f16 -DACT=f16 -DWEIGHTS=Packed<S4<ACT>>
// ptx: q4_f16 -DACT=f16 -DWEIGHTS=Packed<Q4<ACT>>
// ptx: q6_f16 -DACT=f16 -DWEIGHTS=Packed<Q6<ACT>>
// ptx: q8_f16 -DACT=f16 -DWEIGHTS=Packed<Q8<ACT>>
//
// Products of up to eight tokens with a matrix, at the speed at which its weights can be read:
//
//     out[token, row] = sum of x[token, column] * weight[row, column] + bias[row]
//
// A block of threads takes panels of 16 rows, one after the other, until none is left: first its
// own ones, then the next that nobody has begun, so that no multiprocessor waits for a slower one.
// One warp brings a panel in stages of some hundred columns into a ring in shared memory. Sixteen
// warps share the columns of a stage, each with its columns of `x` kept in shared memory for all
// panels, and take turns in adding up their sums of a panel. Weights are the `a` of the tensor
// cores and tokens the `b`. Where `x` is too large for that, slices of the columns go to different
// blocks, and the last one to finish a panel adds up.
//
// The ring is so large that one block fits a multiprocessor: two of a launch would share one while
// another had none.
//
// The order of a sum is that of (columns, slices). Weights do not depend on earlier kernels: the
// ring is filled with them before the inputs are waited for.
#include "prelude.cuh"
#include "gated.cuh"
#include "packed.cuh"
#include "product_out.cuh"

struct PanelsParams {
    TensorMap map;     // of dense weights: boxes of 16 rows and eight chunks, 128-byte swizzle
    const u8 *x;       // ACT, rows of `x_stride` numbers
    const u8 *weights; // ACT `[rows, columns]`, or packed
    const u8 *next;    // the weights of the product after this one, in panels of `next_bytes`
    const float *bias; // `[rows]`, or null
    u8 *out;           // rows of `out_stride` numbers
    float *partials;   // 128 for each panel and slice, when there are slices
    u32 *counters;     // blocks that ended, panels begun of each slice, slices ended of each panel;
                       // zero before and after the launch
    i32 tokens, rows, columns;
    i32 x_stride, out_stride;
    u32 out_kind; // of `ProductOut`
    i32 gate; // an `Activation` when gate and up rows alternate in eights, else `NO_GATE`
    i32 slices, slice_columns; // a multiple of 512; slices divide the number of blocks
    i32 stages;                // of the ring
    i32 own_panels;            // of a block; at least enough to fill the ring
    u32 next_bytes, next_panels;
};

#if __CUDA_ARCH__ >= 900
#define HAS_BULK 1
#else
#define HAS_BULK 0
#endif

enum : u32 { NO_PANEL = ~0u };

static const int WARPS = 16;
static const int THREADS = WARPS * 32;
static const int PANEL_SUMS = PANEL_ROWS * 8;

// ---- Weights: how a part of a panel comes into shared memory, and how a warp meets its columns.

/// ACT in rows. A stage is eight chunks of 64 columns, a warp takes half a chunk.
struct Dense {
    static const int WARP_BLOCKS = 1;
    static const int STAGE_COLUMNS = WARPS * WARP_BLOCKS * BLOCK_COLUMNS;
    static const int STAGE_BYTES = PANEL_ROWS * STAGE_COLUMNS * 2;
    static const bool NEEDS_SUMS = false;
    static constexpr float SUM_FACTOR = 0.0f;

    static DEVICE void load(u32 stage, u32 barrier, const PanelsParams &p, u32 panel, int column,
                            int columns) {
        int lane = threadIdx.x % 32;
#if HAS_BULK
        if (lane != 0) return;
        barrier_expect(barrier, STAGE_BYTES);
        copy_box(stage, &p.map, panel * PANEL_ROWS, column / 64, barrier);
#else
        int first = panel * PANEL_ROWS;
        for (int i = lane; i < (columns + 63) / 64 * 128; i += 32) {
            int row = i / 8 % 16, vector = i % 8, at = column + i / 128 * 64 + vector * 8;
            copy_async16_once(stage + i / 8 * 128 + (vector ^ row % 8) * 16,
                              p.weights + ((i64)(first + row) * p.columns + at) * 2,
                              first + row < p.rows && at < p.columns);
        }
        barrier_arrive_after_copies(barrier);
#endif
    }

    static DEVICE void multiply(float acc[4], const u8 *stage, int block, int lane, const u32 b[4],
                                const float *) {
        int row = lane % 16;
        u32 rows = shared_address(stage) + block / 2 * 2048 + row * 128;
#pragma unroll
        for (int step = 0; step < 2; step++) {
            int vector = (block % 2 * 4 + step * 2 + lane / 16) ^ row % 8;
            u32 a[4];
            load_matrices(a, rows + vector * 16);
            mma<ACT>(acc, a, b + 2 * step);
        }
    }
};

template <typename Format> struct Packed {
    /// Stages of 20 to 40 KB: the larger, the less is waited for, but some must fit beside `x`.
    static const int WARP_BLOCKS = Format::BYTES < 300 ? 8 : Format::BYTES < 400 ? 4 : 2;
    static const int STAGE_COLUMNS = WARPS * WARP_BLOCKS * BLOCK_COLUMNS;
    static const int STAGE_BYTES = WARPS * WARP_BLOCKS * Format::BYTES;
    static const bool NEEDS_SUMS = Format::NEEDS_SUMS;
    static constexpr float SUM_FACTOR = Format::SUM_FACTOR;

    static DEVICE void load(u32 stage, u32 barrier, const PanelsParams &p, u32 panel, int column,
                            int columns) {
        int lane = threadIdx.x % 32, bytes = columns / BLOCK_COLUMNS * Format::BYTES;
        i64 block = (i64)panel * (p.columns / BLOCK_COLUMNS) + column / BLOCK_COLUMNS;
        const u8 *from = p.weights + block * Format::BYTES;
#if HAS_BULK
        if (lane != 0) return;
        barrier_expect(barrier, bytes);
        copy_bulk(stage, from, bytes, barrier);
#else
        for (int at = lane * 16; at < bytes; at += 32 * 16)
            copy_async16_once(stage + at, from + at, true);
        barrier_arrive_after_copies(barrier);
#endif
    }

    static DEVICE void multiply(float acc[4], const u8 *stage, int block, int lane, const u32 b[4],
                                const float *x_sums) {
        Format weights(stage + block * Format::BYTES, lane);
        weights.multiply(acc, b, x_sums);
    }
};

// ---- Shared memory: a ring of stages and one of the warps' sums, each with two barriers a place
// (filled, free again), and the warps' parts of x.

static const int SUMS = 2;
static const int SUMS_BYTES = WARPS * PANEL_SUMS * 4;

/// A buffer of a ring, and the parity of its round.
struct RingIndex {
    u32 places, at = 0, parity = 0;

    DEVICE RingIndex(u32 places) : places(places) {}

    DEVICE void advance() {
        if (++at == places) {
            at = 0;
            parity ^= 1;
        }
    }
};

struct Layout {
    static const u32 MOST_STAGES = 16, RING_AT = 1024;
    u8 *bytes;
    u32 sums_at;

    DEVICE Layout(u8 *bytes, const PanelsParams &p)
        : bytes(bytes), sums_at(RING_AT + p.stages * WEIGHTS::STAGE_BYTES) {}

    DEVICE u32 stage_filled(const RingIndex &ring) const {
        return shared_address(bytes) + ring.at * 16;
    }
    DEVICE u32 stage_free(const RingIndex &ring) const {
        return stage_filled(ring) + 8;
    }
    DEVICE u32 sums_filled(const RingIndex &ring) const {
        return stage_filled(ring) + MOST_STAGES * 16;
    }
    DEVICE u32 sums_free(const RingIndex &ring) const {
        return sums_filled(ring) + 8;
    }
    /// The panel that a stage is of.
    DEVICE u32 *panel(const RingIndex &ring) const {
        return (u32 *)(bytes + (MOST_STAGES + SUMS) * 16) + ring.at;
    }
    DEVICE u8 *stage(const RingIndex &ring) const {
        return bytes + RING_AT + ring.at * WEIGHTS::STAGE_BYTES;
    }
    DEVICE float4 *sums(const RingIndex &ring) const {
        return (float4 *)(bytes + sums_at + ring.at * SUMS_BYTES);
    }
    /// A warp's tokens, and their sums.
    DEVICE u8 *warp_part(u32 warp, u32 part_bytes) const {
        return bytes + sums_at + SUMS * SUMS_BYTES + warp * part_bytes;
    }

    DEVICE void init(u32 stages) const {
        for (RingIndex ring(stages); ring.parity == 0; ring.advance()) {
            barrier_init(stage_filled(ring), HAS_BULK ? 1 : 32);
            barrier_init(stage_free(ring), WARPS);
        }
        for (RingIndex ring(SUMS); ring.parity == 0; ring.advance()) {
            // Every lane arrives for itself: so a checker of races can follow who wrote what.
            barrier_init(sums_filled(ring), THREADS);
            barrier_init(sums_free(ring), 32);
        }
        barriers_are_ready();
    }
};

/// A slice of the columns, and the blocks that share its panels.
struct Slice {
    u32 index, first_column, columns, blocks, first_panel, panels;

    DEVICE Slice(const PanelsParams &p) {
        index = blockIdx.x % p.slices;
        first_column = index * p.slice_columns;
        columns = min(p.slice_columns, p.columns - first_column);
        blocks = gridDim.x / p.slices;
        first_panel = blockIdx.x / p.slices;
        panels = (p.rows + PANEL_ROWS - 1) / PANEL_ROWS;
    }
};

// ---- Bringing.

/// Waits for nobody: the number is needed only when the panel before has been brought.
DEVICE u32 begin_next(const PanelsParams &p, const Slice &slice) {
    wait_for_inputs();
    return threadIdx.x % 32 == 0 ? count_up(&p.counters[1 + slice.index]) : 0;
}

/// Memory would rest from the last panel of this launch to the first of the next one, which begins
/// where this block's begin: its bytes are brought nearer meanwhile.
DEVICE void fetch_next(const PanelsParams &p) {
    const u32 most = 128 * 1024, bytes = min(p.next_bytes, most);
    if (p.next_panels <= blockIdx.x) return;
    const u8 *from = p.next + (u64)blockIdx.x * p.next_bytes;
    for (u32 at = threadIdx.x % 32 * 4096; at < bytes; at += 32 * 4096)
        prefetch_to_l2(from + at, min(4096u, bytes - at));
}

DEVICE void bring(const PanelsParams &p, const Layout &layout, const Slice &slice) {
    RingIndex ring(p.stages);
    bool is_ring_full = false;
    u32 panel = slice.first_panel;
    for (u32 taken = 1; panel < slice.panels; taken++) {
        bool is_own = taken < p.own_panels, has_begun = is_own;
        u32 begun = 0;
        for (u32 column = 0; column < slice.columns; column += WEIGHTS::STAGE_COLUMNS) {
            if (is_ring_full) barrier_wait(layout.stage_free(ring), ring.parity ^ 1);
            if (threadIdx.x % 32 == 0) *layout.panel(ring) = panel;
            WEIGHTS::load(shared_address(layout.stage(ring)), layout.stage_filled(ring), p, panel,
                          slice.first_column + column,
                          min(WEIGHTS::STAGE_COLUMNS, slice.columns - column));
            if (is_ring_full && !has_begun) {
                begun = begin_next(p, slice);
                has_begun = true;
            }
            ring.advance();
            is_ring_full |= ring.at == 0;
        }
        if (!has_begun) begun = begin_next(p, slice);
        if (is_own)
            panel = slice.first_panel + taken * slice.blocks;
        else
            panel = p.own_panels * slice.blocks + __shfl_sync(~0u, begun, 0);
    }
    fetch_next(p);
    wait_for_inputs();
    if (threadIdx.x % 32 == 0 && count_up(&p.counters[0]) == gridDim.x - 1) {
        for (int i = 0; i <= p.slices; i++) p.counters[i] = 0;
    }
    if (is_ring_full) barrier_wait(layout.stage_free(ring), ring.parity ^ 1);
    if (threadIdx.x % 32 == 0) *layout.panel(ring) = NO_PANEL;
    if (!HAS_BULK || threadIdx.x % 32 == 0) barrier_arrive(layout.stage_filled(ring));
}

// ---- Multiplying.

/// A warp's columns of the tokens, in blocks of 32 columns. A block holds `padded` rows of 64 bytes
/// (1, 2, 4 or 8), with their 16-byte vectors exchanged so that no bank is hit twice. They come in
/// four parts, so that the first panel can begin with the first.
struct Tokens {
    u32 padded, blocks, part_blocks, parts = 0, warp, lane;
    u8 *bytes;
    float *sums;

    DEVICE Tokens(const PanelsParams &p, const Layout &layout, const Slice &slice)
        : warp(threadIdx.x / 32), lane(threadIdx.x % 32) {
        padded = p.tokens < 3 ? p.tokens : p.tokens < 5 ? 4 : 8;
        blocks = p.slice_columns / (WARPS * BLOCK_COLUMNS);
        part_blocks = (blocks + 3) / 4;
        u32 block_bytes = padded * 64 + (WEIGHTS::NEEDS_SUMS ? 32 : 0);
        bytes = layout.warp_part(warp, blocks * block_bytes);
        sums = (float *)(bytes + blocks * padded * 64);
        for (u32 part = 0; part < 4; part++) load_part(p, slice, part);
    }

    DEVICE void load_part(const PanelsParams &p, const Slice &slice, u32 part) const {
        u32 vectors = padded * 4, end = min((part + 1) * part_blocks, blocks) * vectors;
        for (u32 i = part * part_blocks * vectors + lane; i < end; i += 32) {
            u32 block = i / vectors, token = i / 4 % padded, vector = i % 4;
            u32 column = (block * WARPS + warp) * BLOCK_COLUMNS + vector * 8;
            const u8 *from = p.x + ((i64)token * p.x_stride + slice.first_column + column) * 2;
            copy_async16(shared_address(bytes) + address(block, token, vector), from,
                         token < p.tokens && column < slice.columns);
        }
        copy_async_commit();
    }

    /// Waits until the first `count` blocks are there.
    DEVICE void need(u32 count) {
        while (parts * part_blocks < count) {
            if (parts == 0) copy_async_wait<3>();
            if (parts == 1) copy_async_wait<2>();
            if (parts == 2) copy_async_wait<1>();
            if (parts == 3) copy_async_wait<0>();
            __syncwarp();
            if (WEIGHTS::NEEDS_SUMS) sum_part(parts);
            parts++;
        }
    }

    DEVICE u32 address(u32 block, u32 token, u32 vector) const {
        return (block * padded + token) * 64 + (vector ^ token / 2 % 4) * 16;
    }

    /// Tokens past the last are one of the others once more; their results are not used.
    DEVICE void load(u32 b[4], u32 block) const {
        u32 token = lane % 8 & (padded - 1);
        load_matrices(b, shared_address(bytes) + address(block, token, lane / 8));
    }

    DEVICE void sum_part(u32 part) const {
        u32 end = min((part + 1) * part_blocks, blocks);
#pragma unroll 2
        for (u32 block = part * part_blocks; block < end; block++) {
            u32 b[4];
            float c[4];
            load(b, block);
            sum_tokens<ACT>(c, b);
            const float factor = WEIGHTS::SUM_FACTOR;
            if (lane < 4) ((float2 *)sums)[block * 4 + lane] = {c[0] * factor, c[1] * factor};
        }
        __syncwarp();
    }
};

/// Leaves a lane's sums of this slice and, in the last block to come, gives those of all slices.
DEVICE bool join_slices(float sum[4], const PanelsParams &p, const Slice &slice, u32 panel) {
    u32 lane = threadIdx.x % 32;
    Vec16 *slots = (Vec16 *)p.partials + (i64)panel * p.slices * 32 + lane;
    Vec16 bits;
#pragma unroll
    for (int i = 0; i < 4; i++) bits.word[i] = __float_as_uint(sum[i]);
    store16(slots + slice.index * 32, bits);
    __threadfence();
    __syncwarp();
    u32 before = 0;
    if (lane == 0) before = count_up(&p.counters[1 + p.slices + panel]);
    if (__shfl_sync(~0u, before, 0) != p.slices - 1) return false;
    if (lane == 0) p.counters[1 + p.slices + panel] = 0;
    __threadfence();
    sum[0] = sum[1] = sum[2] = sum[3] = 0;
    for (int slot = 0; slot < p.slices; slot++) {
        bits = load_fresh(slots + slot * 32);
#pragma unroll
        for (int i = 0; i < 4; i++) sum[i] += __uint_as_float(bits.word[i]);
    }
    return true;
}

DEVICE void write(const PanelsParams &p, u32 token, u32 column, float sum) {
    float value = finished(p.out_kind, sum);
    i64 at = (i64)token * p.out_stride + column;
    if (p.out_kind & OUT_IS_F32)
        ((float *)p.out)[at] = value;
    else
        ((ACT *)p.out)[at] = round_to<ACT>(value);
}

/// Adds up the warps' sums of a panel, each lane for two rows and two tokens as `c` has them.
DEVICE void finish(const PanelsParams &p, const Slice &slice, u32 panel, const float4 *sums,
                   u32 sums_free) {
    u32 lane = threadIdx.x % 32;
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) {
        float4 part = sums[warp * 32 + lane];
        sum[0] += part.x;
        sum[1] += part.y;
        sum[2] += part.z;
        sum[3] += part.w;
    }
    barrier_arrive(sums_free);
    if (1 < p.slices && !join_slices(sum, p, slice, panel)) return;
    u32 row = panel * PANEL_ROWS + lane / 4, token = lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; i++, token++) {
        if (p.tokens <= token) return;
        float upper = sum[i], lower = sum[2 + i];
        if (p.gate != NO_GATE) {
            u32 column = panel * (PANEL_ROWS / 2) + lane / 4;
            if (row + 8 < p.rows) write(p, token, column, activate(upper, p.gate) * lower);
            continue;
        }
        if (row < p.rows) write(p, token, row, upper + (p.bias ? p.bias[row] : 0));
        if (row + 8 < p.rows) write(p, token, row + 8, lower + (p.bias ? p.bias[row + 8] : 0));
    }
}

/// A warp's blocks of a stage, from its `first`-th on; `count` of them are there.
DEVICE void multiply_stage(float acc[4], const u8 *stage, const Tokens &tokens, u32 first,
                           int count) {
#pragma unroll
    for (int i = 0; i < WEIGHTS::WARP_BLOCKS; i++) {
        if (count <= i) break;
        u32 b[4];
        tokens.load(b, first + i);
        WEIGHTS::multiply(acc, stage, i * WARPS + tokens.warp, tokens.lane, b,
                          tokens.sums + (first + i) * 8 + tokens.lane % 4 * 2);
    }
}

DEVICE void multiply(const PanelsParams &p, const Layout &layout, const Slice &slice) {
    wait_for_inputs();
    Tokens tokens(p, layout, slice);
    RingIndex ring(p.stages), sums_at(SUMS);
    // Blocks of 32 columns that are this warp's.
    int blocks = (slice.columns / BLOCK_COLUMNS + WARPS - 1 - tokens.warp) / WARPS;
    int rounds = (slice.columns + WEIGHTS::STAGE_COLUMNS - 1) / WEIGHTS::STAGE_COLUMNS;
    for (u32 done = 0;; done++) {
        float acc[4] = {0, 0, 0, 0};
        u32 panel = NO_PANEL;
        for (int round = 0; round < rounds; round++) {
            barrier_wait(layout.stage_filled(ring), ring.parity);
            if (round == 0) panel = *layout.panel(ring);
            if (panel == NO_PANEL) return;
            int first = round * WEIGHTS::WARP_BLOCKS;
            if (done == 0) tokens.need(min(first + WEIGHTS::WARP_BLOCKS, blocks));
            if (first + WEIGHTS::WARP_BLOCKS <= blocks)
                multiply_stage(acc, layout.stage(ring), tokens, first, WEIGHTS::WARP_BLOCKS);
            else
                multiply_stage(acc, layout.stage(ring), tokens, first, blocks - first);
            __syncwarp();
            if (tokens.lane == 0) barrier_arrive(layout.stage_free(ring));
            ring.advance();
        }
        if (SUMS <= done) barrier_wait(layout.sums_free(sums_at), sums_at.parity ^ 1);
        float4 *sums = layout.sums(sums_at);
        sums[threadIdx.x] = {acc[0], acc[1], acc[2], acc[3]};
        barrier_arrive(layout.sums_filled(sums_at));
        if (done % WARPS == tokens.warp) {
            barrier_wait(layout.sums_filled(sums_at), sums_at.parity);
            finish(p, slice, panel, sums, layout.sums_free(sums_at));
        }
        sums_at.advance();
    }
}

KERNEL __launch_bounds__(THREADS + 32, 1) panels(const __grid_constant__ PanelsParams p) {
    extern __shared__ __align__(1024) u8 shared[];
    Layout layout(shared, p);
    Slice slice(p);
    if (threadIdx.x == 0) layout.init(p.stages);
    __syncthreads();
    let_next_start();
    if (threadIdx.x < THREADS)
        multiply(p, layout, slice);
    else
        bring(p, layout, slice);
}
