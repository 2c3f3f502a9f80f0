// ptx: bf16 -DACT=bf16
// ptx: f16 -DACT=f16
//
// Products of many tokens with a matrix of their type, where the tensor cores are the limit:
//
//     out[token, row] = sum of x[token, column] * weight[row, column] + bias[row]
//
// A block computes a tile of `out`. The columns of its tokens and rows come into a ring of stages
// in shared memory by copies in the background; while a warp multiplies one step of 16 columns, it
// reads those of the next into registers. The warps meet once a stage.
//
// In a wide tile a warp reads `64 + 64` numbers a column for `64 * 64` products; smaller parts
// leave the tensor cores waiting for shared memory. The small tile is for few tokens or rows, when
// it matters more that every multiprocessor has one (H200: 500 and 390 TFLOP/s).
//
// An output is one sum over the columns in their order, whichever the tile: it depends neither on
// the number of tokens nor on the other tokens.
#include "prelude.cuh"

#include "product_out.cuh"

struct GemmParams {
    const u8 *x;       // ACT, rows of `x_stride` numbers
    const u8 *weights; // ACT `[rows, columns]`
    const float *bias; // `[rows]`, or null
    u8 *out;           // rows of `out_stride` numbers
    u32 tokens, rows, columns; // columns and `x_stride` are multiples of 8
    u32 x_stride, out_stride;
    u32 out_kind; // of `ProductOut`
};

/// Columns of a stage, and stages: what a block may have on Hopper, and on every GPU since Ampere.
#if __CUDA_ARCH__ >= 900
constexpr u32 COLUMNS = 64, STAGES = 4;
#else
constexpr u32 COLUMNS = 32, STAGES = 4;
#endif
constexpr u32 STEPS = COLUMNS / 16;
constexpr u32 ROW_BYTES = COLUMNS * 2;
constexpr u32 VECTORS = ROW_BYTES / 16;
/// Tiles of tokens whose blocks run side by side: they read the same weights, and their own
/// columns stay in the second-level cache.
constexpr u32 TOGETHER = 16;

/// Which tokens and rows the warps of a block take: `TILES` times 16 tokens and `GROUPS` times 32
/// rows each.
template <int TOKEN_WARPS_, int ROW_WARPS_, int TILES_, int GROUPS_> struct Shape {
    static constexpr u32 TOKEN_WARPS = TOKEN_WARPS_, ROW_WARPS = ROW_WARPS_;
    static constexpr u32 TILES = TILES_, GROUPS = GROUPS_;
    static constexpr u32 THREADS = TOKEN_WARPS * ROW_WARPS * 32;
    static constexpr u32 WARP_TOKENS = TILES * 16, WARP_ROWS = GROUPS * 32;
    static constexpr u32 TOKENS = TOKEN_WARPS * WARP_TOKENS, ROWS = ROW_WARPS * WARP_ROWS;
    static constexpr u32 STAGE_BYTES = (TOKENS + ROWS) * ROW_BYTES;
};
using Wide = Shape<2, 4, 4, 2>;
using Small = Shape<2, 2, 4, 1>;

// ---- Shared memory. A stage holds rows of `x`, then rows of weights. The 16-byte vectors of a row
// are exchanged by its `exchange`, which tells apart the eight rows that are read at once.

DEVICE u32 address_of(u32 row, u32 exchange, u32 vector) {
    return row * ROW_BYTES + (vector ^ exchange * VECTORS / 8) * 16;
}
DEVICE u32 token_exchange(u32 token) {
    return token % 8;
}
/// The eight rows are four pairs, one of each eight in 32: see `Fragments`.
DEVICE u32 row_exchange(u32 row) {
    return row % 2 + row / 8 % 4 * 2;
}

/// A thread's part of the copies: one vector of every `STRIDE`-th row, from stage to stage.
template <typename Tile> struct Copies {
    static constexpr u32 STRIDE = Tile::THREADS / VECTORS;
    static constexpr u32 OF_X = Tile::TOKENS / STRIDE, OF_WEIGHTS = Tile::ROWS / STRIDE;
    const u8 *x, *weights;
    u64 x_step, weights_step;
    u32 row, vector, tokens_left, rows_left, column, columns;

    DEVICE Copies(const GemmParams &p, u32 first_token, u32 first_row)
        : x_step((u64)STRIDE * p.x_stride * 2), weights_step((u64)STRIDE * p.columns * 2),
          row(threadIdx.x / VECTORS), vector(threadIdx.x % VECTORS),
          tokens_left(p.tokens - first_token), rows_left(p.rows - first_row), column(vector * 8),
          columns(p.columns) {
        x = p.x + ((u64)(first_token + row) * p.x_stride + column) * 2;
        weights = p.weights + ((u64)(first_row + row) * p.columns + column) * 2;
    }

    /// Part `part` of `PARTS` of a stage; zeros where there is no token, row or column.
    template <u32 PARTS> DEVICE void bring(u32 stage, u32 part) const {
        constexpr u32 ALL = OF_X + OF_WEIGHTS, SHARE = (ALL + PARTS - 1) / PARTS;
        bool is_column = column < columns;
#pragma unroll
        for (u32 at = 0; at < SHARE; at++) {
            u32 i = part * SHARE + at;
            if (i < OF_X) {
                u32 token = row + i * STRIDE;
                copy_async16(stage + address_of(token, token_exchange(token), vector),
                             x + i * x_step,
                             is_column && token < tokens_left);
            } else if (i < ALL) {
                u32 to = row + (i - OF_X) * STRIDE;
                copy_async16(stage + address_of(Tile::TOKENS + to, row_exchange(to), vector),
                             weights + (i - OF_X) * weights_step, is_column && to < rows_left);
            }
        }
    }

    DEVICE void advance() {
        x += ROW_BYTES;
        weights += ROW_BYTES;
        column += COLUMNS;
    }
};

// ---- Registers.

/// One step of 16 columns of a warp's tokens (`a`) and rows (`b`).
///
/// Tensor cores give a lane two neighbouring numbers of every eight rows. So that it ends with
/// eight neighbours, the eight rows of a `b` are not neighbours: column n of the j-th of a group
/// is row `n / 2 * 8 + j * 2 + n % 2` of its 32.
template <typename Tile> struct Fragments {
    u32 a[Tile::TILES][4];
    u32 b[Tile::GROUPS * 4][2];

    DEVICE void load(u32 stage, u32 step) {
        u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, exchange = lane % 8;
        u32 token = warp / Tile::ROW_WARPS * Tile::WARP_TOKENS + lane % 16;
        u32 row =
            warp % Tile::ROW_WARPS * Tile::WARP_ROWS + exchange / 2 * 8 + exchange % 2 +
            lane / 16 * 2;
        u32 from_x = stage + address_of(token, exchange, step * 2 + lane / 16);
        u32 from_weights =
            stage + address_of(Tile::TOKENS + row, exchange, step * 2 + lane / 8 % 2);
#pragma unroll
        for (u32 i = 0; i < Tile::TILES; i++) load_matrices(a[i], from_x + i * 16 * ROW_BYTES);
#pragma unroll
        for (u32 i = 0; i < Tile::GROUPS * 2; i++)
            load_matrices(b[i * 2], from_weights + (i / 2 * 32 + i % 2 * 4) * ROW_BYTES);
    }

    DEVICE void multiply(float acc[Tile::TILES][Tile::GROUPS * 4][4]) const {
#pragma unroll
        for (u32 i = 0; i < Tile::TILES; i++)
#pragma unroll
            for (u32 j = 0; j < Tile::GROUPS * 4; j++) mma<ACT>(acc[i][j], a[i], b[j]);
    }
};

template <typename T>
DEVICE void write_run(const GemmParams &p, u32 token, u32 row, const float run[8]) {
    T *to = (T *)p.out + (u64)token * p.out_stride + row;
    if (row + 8 <= p.rows && fits_16((u64)p.out | (u64)p.out_stride * sizeof(T))) {
        store8(to, run);
    } else {
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            if (row + i < p.rows) to[i] = round_to<T>(run[i]);
    }
}

/// `first_token`, `first_row`: of the warp.
template <typename Tile>
DEVICE void write_out(const GemmParams &p, const float acc[Tile::TILES][Tile::GROUPS * 4][4],
                      u32 first_token, u32 first_row) {
    u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 group = 0; group < Tile::GROUPS; group++) {
        u32 row = first_row + group * 32 + lane % 4 * 8;
        float bias[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) bias[i] = p.bias && row + i < p.rows ? p.bias[row + i] : 0.0f;
#pragma unroll
        for (u32 half = 0; half < Tile::TILES * 2; half++) {
            u32 token = first_token + half * 8 + lane / 4;
            float run[8];
#pragma unroll
            for (u32 i = 0; i < 8; i++)
                run[i] = finished(
                    p.out_kind, acc[half / 2][group * 4 + i / 2][half % 2 * 2 + i % 2] + bias[i]);
            if (token >= p.tokens) continue;
            if (p.out_kind & OUT_IS_F32)
                write_run<float>(p, token, row, run);
            else
                write_run<ACT>(p, token, row, run);
        }
    }
}

// ---- The kernel.

/// The tile of this block: its first token and row.
template <typename Tile> DEVICE uint2 tile_of_block(const GemmParams &p) {
    u32 token_tiles = (p.tokens + Tile::TOKENS - 1) / Tile::TOKENS;
    u32 row_tiles = (p.rows + Tile::ROWS - 1) / Tile::ROWS;
    u32 first = blockIdx.x / (TOGETHER * row_tiles) * TOGETHER;
    u32 together = min(TOGETHER, token_tiles - first);
    u32 at = blockIdx.x % (TOGETHER * row_tiles);
    return {(first + at % together) * Tile::TOKENS, at / together * Tile::ROWS};
}

template <typename Tile> DEVICE void gemm(const GemmParams &p) {
    extern __shared__ __align__(128) u8 shared[];
    const u32 ring = shared_address(shared), ring_end = ring + STAGES * Tile::STAGE_BYTES;
    const u32 units = (p.columns + COLUMNS - 1) / COLUMNS;
    uint2 first = tile_of_block<Tile>(p);
    Copies<Tile> copies(p, first.x, first.y);

    let_next_start();
    wait_for_inputs();
    u32 filled = ring;
#pragma unroll
    for (u32 i = 0; i + 1 < STAGES; i++) {
        copies.template bring<1>(filled, 0);
        copy_async_commit();
        copies.advance();
        filled += Tile::STAGE_BYTES;
    }
    copy_async_wait<STAGES - 2>();
    __syncthreads();

    float acc[Tile::TILES][Tile::GROUPS * 4][4] = {};
    Fragments<Tile> fragments[2];
    u32 stage = ring;
    fragments[0].load(stage, 0);
#pragma unroll 1
    for (u32 unit = 0; unit < units; unit++) {
#pragma unroll
        for (u32 step = 0; step < STEPS; step++) {
            if (step + 1 < STEPS) {
                copies.template bring<STEPS - 1>(filled, step);
            } else {
                // All have read this stage: the next stage may fill it.
                copy_async_commit();
                copies.advance();
                filled = stage;
                stage = stage + Tile::STAGE_BYTES == ring_end ? ring : stage + Tile::STAGE_BYTES;
                copy_async_wait<STAGES - 2>();
                __syncthreads();
            }
            fragments[(step + 1) % 2].load(stage, (step + 1) % STEPS);
            fragments[step % 2].multiply(acc);
        }
    }
    copy_async_wait<0>();
    u32 warp = threadIdx.x / 32;
    write_out<Tile>(p, acc, first.x + warp / Tile::ROW_WARPS * Tile::WARP_TOKENS,
                    first.y + warp % Tile::ROW_WARPS * Tile::WARP_ROWS);
}

KERNEL __launch_bounds__(Wide::THREADS, 1) gemm_wide(const __grid_constant__ GemmParams p) {
    gemm<Wide>(p);
}
KERNEL __launch_bounds__(Small::THREADS, 2) gemm_small(const __grid_constant__ GemmParams p) {
    gemm<Small>(p);
}
