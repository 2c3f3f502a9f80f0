// What chunk.cu and slot_chunk_mma.cu have in common: a tile in shared memory, and its two products
// with the instructions that every GPU since Ampere has. To be included after chunk_softmax.cuh,
// with `Query` (the numbers that are multiplied) and HEAD_DIM set.
//
// Keys come in tiles of 64, keys first and then values. Each of four warps has 32 rows of queries,
// as two blocks of 16, so that what it reads of a key serves two products.

static const int WARPS = 4;
static const int THREADS = WARPS * 32;
static const int KEYS = 64;
/// Bytes of a row and of a tile's keys as the tensor cores read them.
static const int ROW = HEAD_DIM * 2;
static const int SIDE = KEYS * ROW;
/// Tensor-core steps of 16 numbers along a head, columns of 8 keys, columns of 8 numbers.
static const int STEPS = HEAD_DIM / 16;
static const int KEY_COLUMNS = KEYS / 8;
static const int COLUMNS = HEAD_DIM / 8;

/// A vector of 16 bytes of a tile, where eight rows of one column lie in all banks.
DEVICE u32 swizzled(int row, int vector) {
    return row * ROW + ((vector ^ (row & 7)) << 4);
}

// ---- Copying: a warp's rows, of which each lane knows where one lies.

/// Lanes that copy a row, and rows that a warp copies at once.
static const int COPY_LANES = ROW / 16;
static const int COPY_ROWS = 32 / COPY_LANES;

/// Copies 16 bytes to shared memory in the background, or zeros, for which nothing is read.
DEVICE void copy_async16_or_zeros(u32 shared, const void *global, bool is_there) {
    asm volatile("{ .reg .pred none; setp.eq.u32 none, %2, 0; "
                 "cp.async.cg.shared.global [%0], [%1], 16, none; }" ::"r"(shared),
                 "l"(global), "r"((u32)is_there)
                 : "memory");
}

/// Where a lane's vectors of rows go that begin at `rows`, a multiple of eight rows into a tile.
DEVICE u32 copy_start(u32 rows, int lane) {
    return rows + swizzled(lane / COPY_LANES, lane % COPY_LANES);
}
/// The same `i` copies later.
DEVICE u32 copy_moved(u32 start, int i) {
    return (start ^ i * COPY_ROWS % 8 * 16) + i * COPY_ROWS * ROW;
}
/// Copies number `i` of those that bring a warp's rows to `start`. `offset` is from the lane's
/// vector in `rows` to the row that it knows, negative where there is none.
DEVICE void copy_rows(u32 start, const u8 *rows, i64 offset, int i, int lane) {
    const i64 from = __shfl_sync(~0u, offset, i * COPY_ROWS + lane / COPY_LANES);
    copy_async16_or_zeros(copy_moved(start, i), rows + from, 0 <= from);
}

// ---- Products.

/// A warp's sums so far, in units of `unit` where values have scales.
struct State {
    Softmax softmax[2];
    float sums[2][COLUMNS][4];
    float unit;
};

/// `between(step)` is done beside the products of each of the `STEPS`, while the tensor cores work.
template <typename Between>
DEVICE void score(float s[2][KEY_COLUMNS][4], u32 queries, u32 keys, int lane,
                  const Between &between) {
    const u32 a_at = queries + swizzled(lane % 16, lane / 16);
    const u32 b_at = keys + swizzled(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        u32 a[2][4];
        load_matrices(a[0], a_at ^ step * 32);
        load_matrices(a[1], (a_at ^ step * 32) + 16 * ROW);
#pragma unroll
        for (int column = 0; column < KEY_COLUMNS; column += 2) {
            u32 b[4];
            load_matrices(b, (b_at ^ step * 32) + column * 8 * ROW);
#pragma unroll
            for (int block = 0; block < 2; block++) {
                mma<Query>(s[block][column], a[block], b);
                mma<Query>(s[block][column + 1], a[block], b + 2);
            }
        }
        between(step);
    }
}

DEVICE void add_values(State &state, const float s[2][KEY_COLUMNS][4], u32 values, int lane) {
    const u32 b_at = values + swizzled(lane % 16, lane / 16);
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++) {
        u32 a[2][4];
#pragma unroll
        for (int block = 0; block < 2; block++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *pair = s[block][2 * step + i / 2] + i % 2 * 2;
                a[block][i] = pack<Query>(pair[0], pair[1]);
            }
#pragma unroll
        for (int column = 0; column < COLUMNS; column += 2) {
            u32 b[4];
            load_matrices_transposed(b, (b_at ^ column * 16) + step * 16 * ROW);
#pragma unroll
            for (int block = 0; block < 2; block++) {
                mma<Query>(state.sums[block][column], a[block], b);
                mma<Query>(state.sums[block][column + 1], a[block], b + 2);
            }
        }
    }
}

/// Scores to weights, in place. Both blocks together: while the one's powers are computed, the
/// other's largest scores are looked for.
DEVICE void weigh(State &state, float s[2][KEY_COLUMNS][4], float scale, float shrink[2][2]) {
#pragma unroll
    for (int block = 0; block < 2; block++) {
        raise_largest(state.softmax[block], s[block], scale, shrink[block]);
        weigh(state.softmax[block], s[block], scale, shrink[block]);
    }
}

/// What earlier tiles left, in units of the largest scores so far.
DEVICE void shrink_sums(State &state, const float shrink[2][2]) {
    const float least = fminf(fminf(shrink[0][0], shrink[0][1]), fminf(shrink[1][0], shrink[1][1]));
    // Most tiles hold no new largest score; then there is nothing to scale.
    if (!__any_sync(~0u, least != 1.0f)) return;
#pragma unroll
    for (int column = 0; column < COLUMNS; column++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            state.sums[0][column][i] *= shrink[0][i / 2];
            state.sums[1][column][i] *= shrink[1][i / 2];
        }
}
