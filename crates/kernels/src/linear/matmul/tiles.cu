// ptx: bf16 -DACT=bf16 -DWEIGHTS=Dense -DHAS_64
// ptx: s4_bf16 -DACT=bf16 -DWEIGHTS=Packed<S4Centred<ACT>>
// ptx: q4_bf16 -DACT=bf16 -DWEIGHTS=Packed<Q4<ACT>>
// ptx: q6_bf16 -DACT=bf16 -DWEIGHTS=Packed<Q6<ACT>>
// ptx: q8_bf16 -DACT=bf16 -DWEIGHTS=Packed<Q8<ACT>>
// ptx: f16 -DACT=f16 -DWEIGHTS=Dense -DHAS_64
// ptx: s4_f16 -DACT=f16 -DWEIGHTS=Packed<S4Centred<ACT>>
// ptx: q4_f16 -DACT=f16 -DWEIGHTS=Packed<Q4<ACT>>
// ptx: q6_f16 -DACT=f16 -DWEIGHTS=Packed<Q6<ACT>>
// ptx: q8_f16 -DACT=f16 -DWEIGHTS=Packed<Q8<ACT>>
//
// Products of up to 64 tokens (32 with quantised weights, for want of registers) with a matrix, at
// the speed at which its weights can be read:
//
//     out[token, row] = sum of x[token, column] * weight[row, column] + bias[row]
//
// The matrix is cut into tiles of 128 rows, a tile into units of 64 or 128 columns. Each block
// takes an equal run of consecutive units, so that all multiprocessors work for any shape: one warp
// brings them and the tokens' columns into a ring of stages in shared memory, others multiply.
// A tile shared by several blocks is summed from their partial sums by the last of them to finish,
// in the order of the blocks. So the order of every sum is that of (rows, columns, blocks): a
// token's result is the same alone and among 64.
//
// Weights are the `a` of the tensor cores and tokens the `b`. Weights do not depend on earlier
// kernels: the ring is filled with them before the inputs are waited for.
#include "prelude.cuh"
#include "gated.cuh"
#include "packed.cuh"
#include "product_out.cuh"

struct TilesParams {
    TensorMap map;     // of dense weights: boxes of 128 rows and one chunk, 128-byte swizzle
    const u8 *x;       // ACT, rows of `x_stride` numbers
    const u8 *weights; // ACT `[rows, columns]`, or packed
    const float *bias; // `[rows]`, or null
    u8 *out;           // rows of `out_stride` numbers
    u8 *partials;      // two slots of `TOKENS * 128` floats for each block
    u32 *arrivals;     // one for each tile, zero before and after the launch
    i32 tokens, rows, columns;
    i32 x_stride, out_stride;
    u32 out_kind; // of `ProductOut`
    i32 gate; // an `Activation` when gate and up rows alternate in eights, else `NO_GATE`
};

#if __CUDA_ARCH__ >= 900
#define HAS_BULK 1
#else
#define HAS_BULK 0
#endif

static const int TILE_ROWS = 128;
static const int TILE_PANELS = TILE_ROWS / PANEL_ROWS;
/// Threads that finish a tile, a warp for each panel.
static const int FINISHERS = TILE_PANELS * 32;
/// Floats between two tokens' sums on their way to `out`; no two lanes' fall into one bank.
static const int STAGED_STRIDE = TILE_ROWS + 4;

/// What a warp multiplies: some panels, in one half of each unit's columns.
template <int PANELS> struct Warp {
    int lane, panel, half;

    DEVICE Warp() {
        int warp = threadIdx.x / 32, bands = TILE_PANELS / PANELS;
        lane = threadIdx.x % 32;
        panel = warp % bands * PANELS;
        half = warp / bands;
    }
};

/// `b` of two steps, the `block`-th 32 columns of a unit, of eight tokens. Rows of `x` in shared
/// memory are stored with their 16-byte vectors exchanged, so that no bank is hit twice.
template <int COLUMNS> DEVICE void load_block(u32 b[4], u32 x, int tile, int block, int lane) {
    int token = lane % 8, vector = block * 4 + lane / 8;
    load_matrices(b, x + (tile * 8 + token) * COLUMNS * 2 + (vector ^ token) * 16);
}

/// `b` of one step from vector `vector` of 16 bytes on, of sixteen tokens.
template <int COLUMNS> DEVICE void load_step(u32 b[4], u32 x, int tile, int vector, int lane) {
    int token = lane % 8 + lane / 16 * 8;
    vector += lane / 8 % 2;
    load_matrices(b, x + (tile * 8 + token) * COLUMNS * 2 + (vector ^ token % 8) * 16);
}

// ---- Weights: how a unit comes into shared memory, and how it meets the tokens.

/// ACT in rows.
struct Dense {
    static const int COLUMNS = 64;
    /// Of a warp: two share the tokens that were loaded.
    static const int PANELS = 2;
    static const int BYTES = TILE_ROWS * COLUMNS * 2;

    static DEVICE void load(u32 stage, u32 barrier, const TilesParams &p, int tile, int unit) {
        int lane = threadIdx.x % 32;
#if HAS_BULK
        if (lane != 0) return;
        barrier_expect(barrier, BYTES);
        copy_box(stage, &p.map, tile * TILE_ROWS, unit, barrier);
#else
        int row = lane / 8, vector = lane % 8, column = unit * COLUMNS + vector * 8;
        const u8 *from = p.weights + ((i64)(tile * TILE_ROWS + row) * p.columns + column) * 2;
        int rows_left = column < p.columns ? p.rows - tile * TILE_ROWS - row : 0;
#pragma unroll 8
        for (int i = 0; i < TILE_ROWS; i += 4) {
            u32 to = stage + (row + i) * COLUMNS * 2 + (vector ^ (row + i) % 8) * 16;
            copy_async16_once(to, from, i < rows_left);
            from += (i64)4 * p.columns * 2;
        }
#endif
    }

    /// `columns` of the unit are there.
    template <int TILES>
    static DEVICE void multiply(float acc[PANELS][TILES][4], const u8 *stage, u32 x,
                                Warp<PANELS> warp, int columns) {
        if (columns <= warp.half * BLOCK_COLUMNS) return;
        int row = warp.panel * PANEL_ROWS + warp.lane % 16;
        u32 rows = shared_address(stage) + row * COLUMNS * 2;
#pragma unroll
        for (int step = 0; step < 2; step++) {
            int vector = (warp.half * 4 + step * 2 + warp.lane / 16) ^ row % 8;
            u32 a[2][4];
            load_matrices(a[0], rows + vector * 16);
            load_matrices(a[1], rows + vector * 16 + PANEL_ROWS * COLUMNS * 2);
#pragma unroll
            for (int n = 0; n < TILES; n += 2) {
                u32 b[4];
                load_step<COLUMNS>(b, x, n, warp.half * 4 + step * 2, warp.lane);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    mma<ACT>(acc[i % 2][n + i / 2], a[i % 2], b + i / 2 * 2);
            }
        }
    }
};

/// Quantised: four blocks of 32 columns of each panel.
template <typename Format> struct Packed {
    static const int COLUMNS = 128;
    static const int BLOCKS = COLUMNS / BLOCK_COLUMNS;
    /// Of a warp: more would need too many registers.
    static const int PANELS = 1;
    static const int PANEL_BYTES = BLOCKS * Format::BYTES;
    static const int BYTES = TILE_PANELS * PANEL_BYTES;

    static DEVICE void load(u32 stage, u32 barrier, const TilesParams &p, int tile, int unit) {
        int lane = threadIdx.x % 32, blocks = p.columns / BLOCK_COLUMNS;
        int first = unit * BLOCKS, panel = tile * TILE_PANELS;
        int bytes = min(BLOCKS, blocks - first) * Format::BYTES;
        int panels = min(TILE_PANELS, (p.rows + PANEL_ROWS - 1) / PANEL_ROWS - panel);
        const u8 *from = p.weights + ((i64)panel * blocks + first) * Format::BYTES;
#if HAS_BULK
        if (lane == 0) barrier_expect(barrier, panels * bytes);
        __syncwarp();
        if (lane < panels)
            copy_bulk(stage + lane * PANEL_BYTES, from + (i64)lane * blocks * Format::BYTES, bytes,
                      barrier);
#else
        for (int i = 0; i < panels; i++, from += (i64)blocks * Format::BYTES)
            for (int at = lane * 16; at < bytes; at += 32 * 16)
                copy_async16_once(stage + i * PANEL_BYTES + at, from + at, true);
#endif
    }

    template <int TILES>
    static DEVICE void multiply(float acc[PANELS][TILES][4], const u8 *stage, u32 x,
                                Warp<PANELS> warp, int columns) {
#pragma unroll 1
        for (int i = 0; i < BLOCKS / 2; i++) {
            int block = warp.half * (BLOCKS / 2) + i;
            if (columns <= block * BLOCK_COLUMNS) break;
            Format weights(stage + warp.panel * PANEL_BYTES + block * Format::BYTES, warp.lane);
#pragma unroll
            for (int n = 0; n < TILES; n++) {
                u32 b[4];
                load_block<COLUMNS>(b, x, n, block, warp.lane);
                float x_sums[4];
                if (Format::NEEDS_SUMS) sum_tokens<ACT>(x_sums, b);
                weights.multiply(acc[0][n], b, x_sums);
            }
        }
    }
};

// ---- The share of a block.

/// Consecutive units, of which the first blocks take one more than the others when they do not come
/// out even. There are at least as many units as blocks: no share is empty.
struct Share {
    u32 tile_units, least, longer;

    DEVICE Share(const TilesParams &p, u32 unit_columns)
        : tile_units((p.columns + unit_columns - 1) / unit_columns) {
        u32 units = (p.rows + TILE_ROWS - 1) / TILE_ROWS * tile_units;
        least = units / gridDim.x;
        longer = units % gridDim.x;
    }

    DEVICE u32 first_of(u32 block) const {
        return block * least + min(block, longer);
    }
    DEVICE u32 block_of(u32 unit) const {
        u32 in_longer = longer * (least + 1);
        return unit < in_longer ? unit / (least + 1) : longer + (unit - in_longer) / least;
    }
    /// A block leaves at most its first and its last tile unfinished.
    DEVICE u32 slot_of(u32 block, u32 tile) const {
        return block * 2 + (first_of(block) < tile * tile_units);
    }
};

/// A unit of a tile.
struct Position {
    u32 tile, unit;

    DEVICE void advance(u32 tile_units) {
        if (++unit == tile_units) {
            unit = 0;
            tile++;
        }
    }
};

// ---- Results: after `join_columns` each of the first eight warps holds one panel.

/// Adds up the sums of both halves of the columns.
template <int TILES, int PANELS>
DEVICE void join_columns(float sum[TILES][4], const float acc[PANELS][TILES][4], float4 *exchange,
                         Warp<PANELS> warp) {
    const int THREADS = 2 * FINISHERS / PANELS;
    int own = threadIdx.x / 32;
#pragma unroll
    for (int n = 0; n < TILES; n++) {
        sync_part<THREADS>(1);
#pragma unroll
        for (int m = 0; m < PANELS; m++) {
            const float *c = acc[m][n];
            float4 *to = exchange + (warp.half * TILE_PANELS + warp.panel + m) * 32 + warp.lane;
            *to = {c[0], c[1], c[2], c[3]};
        }
        sync_part<THREADS>(1);
        if (TILE_PANELS <= own) continue;
        float4 first = exchange[own * 32 + warp.lane];
        float4 second = exchange[(TILE_PANELS + own) * 32 + warp.lane];
        sum[n][0] = first.x + second.x;
        sum[n][1] = first.y + second.y;
        sum[n][2] = first.z + second.z;
        sum[n][3] = first.w + second.w;
    }
}

/// Leaves this block's sums of a tile and, in the last block to come, gives those of all.
template <int TILES>
DEVICE bool join_blocks(float sum[TILES][4], const TilesParams &p, const Share &share, u32 tile,
                        u32 *is_last) {
    auto slot = [&](u32 block) {
        return (Vec16 *)p.partials + share.slot_of(block, tile) * TILES * FINISHERS + threadIdx.x;
    };
    Vec16 *own = slot(blockIdx.x);
#pragma unroll
    for (int n = 0; n < TILES; n++) {
        Vec16 bits;
#pragma unroll
        for (int i = 0; i < 4; i++) bits.word[i] = __float_as_uint(sum[n][i]);
        store16(own + n * FINISHERS, bits);
    }
    u32 first = share.block_of(tile * share.tile_units);
    u32 last = share.block_of((tile + 1) * share.tile_units - 1);
    __threadfence();
    sync_part<FINISHERS>(2);
    if (threadIdx.x == 0) {
        *is_last = count_up(&p.arrivals[tile]) == last - first;
        if (*is_last) p.arrivals[tile] = 0;
    }
    sync_part<FINISHERS>(2);
    if (!*is_last) return false;
    __threadfence();
#pragma unroll
    for (int i = 0; i < TILES * 4; i++) sum[i / 4][i % 4] = 0;
#pragma unroll 1
    for (u32 block = first; block <= last; block++) {
        const Vec16 *from = slot(block);
        Vec16 bits[TILES];
#pragma unroll
        for (int n = 0; n < TILES; n++) bits[n] = load_fresh(from + n * FINISHERS);
#pragma unroll
        for (int i = 0; i < TILES * 4; i++)
            sum[i / 4][i % 4] += __uint_as_float(bits[i / 4].word[i % 4]);
    }
    return true;
}

/// Sums of some tokens from shared memory to `out`, along its rows.
DEVICE void write_rows(const TilesParams &p, const float *staged, int token, int tokens, int tile) {
    int width = p.gate == NO_GATE ? TILE_ROWS : TILE_ROWS / 2;
    int columns = p.gate == NO_GATE ? p.rows : p.rows / 2;
    int column = tile * width + threadIdx.x % width;
    if (columns <= column) return;
    float bias = p.bias ? p.bias[column] : 0.0f;
#pragma unroll 1
    for (int i = threadIdx.x / width; i < tokens; i += FINISHERS / width) {
        float sum = staged[i * STAGED_STRIDE + threadIdx.x % width] + bias;
        float value = finished(p.out_kind, sum);
        i64 at = (i64)(token + i) * p.out_stride + column;
        if (p.out_kind & OUT_IS_F32)
            ((float *)p.out)[at] = value;
        else
            ((ACT *)p.out)[at] = round_to<ACT>(value);
    }
}

template <int TILES>
DEVICE void write_tile(const TilesParams &p, const float sum[TILES][4], int tile, float *staged) {
    int lane = threadIdx.x % 32, panel = threadIdx.x / 32, row = lane / 4;
#pragma unroll
    for (int first = 0; first < TILES; first += 2) {
        if (p.tokens <= first * 8) break;
        sync_part<FINISHERS>(2);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *pair = &sum[first + i / 2][i % 2];
            float *to = staged + (i / 2 * 8 + lane % 4 * 2 + i % 2) * STAGED_STRIDE;
            if (p.gate != NO_GATE) {
                to[panel * 8 + row] = activate(pair[0], p.gate) * pair[2];
            } else {
                to[panel * 16 + row] = pair[0];
                to[panel * 16 + row + 8] = pair[2];
            }
        }
        sync_part<FINISHERS>(2);
        write_rows(p, staged, first * 8, min(16, p.tokens - first * 8), tile);
    }
}

// ---- The kernel.

/// Columns of all tokens, zeros where there is no token or column.
template <int TOKENS, int COLUMNS>
DEVICE void load_x(u32 stage, const TilesParams &p, u32 unit) {
    const u32 VECTORS = COLUMNS / 8, STEP = 32 / VECTORS;
    u32 token = threadIdx.x % 32 / VECTORS, vector = threadIdx.x % VECTORS;
    u32 column = unit * COLUMNS + vector * 8;
    const u8 *from = p.x + (token * p.x_stride + column) * 2;
    int tokens = column < p.columns ? p.tokens - token : 0;
#pragma unroll
    for (u32 i = 0; i < TOKENS; i += STEP) {
        u32 to = stage + (token + i) * COLUMNS * 2 + (vector ^ (token + i) % 8) * 16;
        copy_async16(to, from + i * p.x_stride * 2, (int)i < tokens);
    }
}

/// The ring of stages in shared memory, and what follows it. So much of it that one block fits a
/// multiprocessor: two of a launch would share one while another had none.
template <typename Weights, int TOKENS> struct Ring {
    static const int STAGE_BYTES = Weights::BYTES + TOKENS * Weights::COLUMNS * 2;
    static const int STAGES = 192 * 1024 / STAGE_BYTES;
    static const int STAGED_BYTES = 16 * STAGED_STRIDE * 4;
    static const int THREADS = 2 * FINISHERS / Weights::PANELS;
    u8 *bytes;
    u32 stage = 0, parity = 0;

    DEVICE Ring(u8 *bytes) : bytes(bytes) {}

    DEVICE u8 *weights() const {
        return bytes + stage * STAGE_BYTES;
    }
    DEVICE u32 x() const {
        return shared_address(weights()) + Weights::BYTES;
    }
    DEVICE float *staged() const {
        return (float *)(bytes + STAGES * STAGE_BYTES);
    }
    DEVICE u32 full() const {
        return shared_address(bytes) + STAGES * STAGE_BYTES + STAGED_BYTES + stage * 16;
    }
    DEVICE u32 empty() const {
        return full() + 8;
    }
    DEVICE u32 *is_last() const {
        return (u32 *)(bytes + STAGES * STAGE_BYTES + STAGED_BYTES + STAGES * 16);
    }

    DEVICE void init() {
        for (stage = 0; stage < STAGES; stage++) {
            barrier_init(full(), 32 + HAS_BULK);
            barrier_init(empty(), THREADS / 32);
        }
        stage = 0;
        barriers_are_ready();
    }

    DEVICE void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

template <typename Weights, int TOKENS>
DEVICE void bring(const TilesParams &p, const Share &share, Ring<Weights, TOKENS> ring) {
    u32 first = share.first_of(blockIdx.x), end = share.first_of(blockIdx.x + 1);
    Position start = {first / share.tile_units, first % share.tile_units}, now = start;
    u32 early = min(end, first + ring.STAGES);
#pragma unroll 1
    for (u32 at = first; at < early; at++, now.advance(share.tile_units), ring.advance())
        Weights::load(shared_address(ring.weights()), ring.full(), p, now.tile, now.unit);
    wait_for_inputs();
    ring.stage = ring.parity = 0;
    now = start;
#pragma unroll 1
    for (u32 at = first; at < end; at++, now.advance(share.tile_units), ring.advance()) {
        if (early <= at) {
            barrier_wait(ring.empty(), ring.parity ^ 1);
            Weights::load(shared_address(ring.weights()), ring.full(), p, now.tile, now.unit);
        }
        load_x<TOKENS, Weights::COLUMNS>(ring.x(), p, now.unit);
        barrier_arrive_after_copies(ring.full());
    }
}

template <typename Weights, int TOKENS>
DEVICE void multiply(const TilesParams &p, const Share &share, Ring<Weights, TOKENS> ring) {
    const int TILES = TOKENS / 8, PANELS = Weights::PANELS;
    Warp<PANELS> warp;
    u32 at = share.first_of(blockIdx.x), end = share.first_of(blockIdx.x + 1);
    Position now = {at / share.tile_units, at % share.tile_units};
    bool is_from_start = now.unit == 0;
    float acc[PANELS][TILES][4] = {};
#pragma unroll 1
    for (; at < end; at++) {
        barrier_wait(ring.full(), ring.parity);
        Weights::template multiply<TILES>(acc, ring.weights(), ring.x(), warp,
                                          p.columns - now.unit * Weights::COLUMNS);
        __syncwarp();
        if (warp.lane == 0) barrier_arrive(ring.empty());
        ring.advance();
        bool is_tile_end = now.unit == share.tile_units - 1;
        if (is_tile_end || at == end - 1) {
            float sum[TILES][4];
            join_columns<TILES, PANELS>(sum, acc, (float4 *)ring.staged(), warp);
            if (threadIdx.x < FINISHERS &&
                (is_from_start && is_tile_end ||
                 join_blocks<TILES>(sum, p, share, now.tile, ring.is_last())))
                write_tile<TILES>(p, sum, now.tile, ring.staged());
            is_from_start = true;
#pragma unroll
            for (int i = 0; i < PANELS * TILES * 4; i++) (&acc[0][0][0])[i] = 0;
        }
        now.advance(share.tile_units);
    }
}

template <typename Weights, int TOKENS> DEVICE void tiles(const TilesParams &p) {
    extern __shared__ __align__(1024) u8 shared[];
    Ring<Weights, TOKENS> ring(shared);
    if (threadIdx.x == 0) ring.init();
    __syncthreads();
    let_next_start();
    Share share(p, Weights::COLUMNS);
    if (threadIdx.x < ring.THREADS)
        multiply<Weights, TOKENS>(p, share, ring);
    else
        bring<Weights, TOKENS>(p, share, ring);
}

KERNEL __launch_bounds__(2 * FINISHERS / WEIGHTS::PANELS + 32, 1)
tiles_32(const __grid_constant__ TilesParams p) {
    tiles<WEIGHTS, 32>(p);
}
#ifdef HAS_64
KERNEL __launch_bounds__(2 * FINISHERS / WEIGHTS::PANELS + 32, 1)
tiles_64(const __grid_constant__ TilesParams p) {
    tiles<WEIGHTS, 64>(p);
}
#endif
