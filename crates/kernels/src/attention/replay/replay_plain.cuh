// Tiles of rows in shared memory as f32, and products of them. To be included after replay.cuh.
//
// A block is 16 x 16 threads. It has TILE rows of its own and meets others TILE at a time. A thread
// has every sixteenth row of either, from its own places on, and in sums of `dim` numbers every
// sixteenth four of them.

static const int SIDE = 16;
static const int THREADS = SIDE * SIDE;
/// Numbers of a row at most, for tiles of that many rows.
template <int TILE> struct Sizes {
    /// Rows of a tile that a thread has, and fours of a row.
    static const int ROWS = TILE / SIDE;
    static const int FOURS = 4 / ROWS;
    /// From one row of weights to the next.
    static const int PITCH = TILE + 1;
};

/// From one row of a tile to the next: whole fours, and four numbers more, so that rows that are
/// read together lie in other banks.
DEVICE u32 width_of(u32 dim) {
    return (dim + 3) / 4 * 4 + 4;
}

struct Place {
    u32 x, y, warp, lane;
};
DEVICE Place place_of_thread() {
    return {threadIdx.x % SIDE, threadIdx.x / SIDE, threadIdx.x / 32, threadIdx.x % 32};
}

/// Fills a tile; rows from `rows` on and numbers behind the last are zeros.
template <int TILE, typename T>
DEVICE void load_tile(float *tile, const T *from, u64 stride, u32 rows, u32 dim) {
    const Place at = place_of_thread();
    const u32 width = width_of(dim);
    for (u32 row = at.warp; row < TILE; row += THREADS / 32)
        for (u32 i = at.lane; i < width - 4; i += 32)
            tile[row * width + i] = row < rows && i < dim ? widen(from[row * stride + i]) : 0.0f;
}

/// products[i][j] = own row i of the thread times met row j.
template <int TILE>
DEVICE void multiply_tiles(float (&products)[TILE / SIDE][TILE / SIDE], const float *own,
                           const float *met, u32 dim) {
    const int rows = TILE / SIDE;
    const Place at = place_of_thread();
    const u32 width = width_of(dim);
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
        for (int j = 0; j < rows; j++) products[i][j] = 0.0f;
    for (u32 k = 0; k < width - 4; k += 4) {
        float4 a[rows], b[rows];
#pragma unroll
        for (int i = 0; i < rows; i++) {
            a[i] = *(const float4 *)(own + (at.y + SIDE * i) * width + k);
            b[i] = *(const float4 *)(met + (at.x + SIDE * i) * width + k);
        }
#pragma unroll
        for (int i = 0; i < rows; i++)
#pragma unroll
            for (int j = 0; j < rows; j++) {
                products[i][j] += a[i].x * b[j].x + a[i].y * b[j].y;
                products[i][j] += a[i].z * b[j].z + a[i].w * b[j].w;
            }
    }
}

/// A thread's part of sums over rows of `dim` numbers, for its rows of the block's own.
template <int TILE> struct RowSums {
    float4 of[Sizes<TILE>::ROWS][Sizes<TILE>::FOURS];

    DEVICE void scale(int row, float factor) {
#pragma unroll
        for (int j = 0; j < Sizes<TILE>::FOURS; j++) {
            float4 &four = of[row][j];
            four.x *= factor, four.y *= factor, four.z *= factor, four.w *= factor;
        }
    }

    /// Adds `count` rows of a tile, by weights [own rows, met rows].
    DEVICE void add(const float *weights, const float *tile, u32 count, u32 dim) {
        const Place at = place_of_thread();
        const u32 width = width_of(dim);
        for (u32 k = 0; k < count; k++) {
            float weight[Sizes<TILE>::ROWS];
#pragma unroll
            for (int i = 0; i < Sizes<TILE>::ROWS; i++)
                weight[i] = weights[(at.y + SIDE * i) * Sizes<TILE>::PITCH + k];
#pragma unroll
            for (int j = 0; j < Sizes<TILE>::FOURS; j++) {
                const u32 number = 4 * (at.x + SIDE * j);
                if (number >= dim) continue;
                const float4 x = *(const float4 *)(tile + k * width + number);
#pragma unroll
                for (int i = 0; i < Sizes<TILE>::ROWS; i++) {
                    float4 &sum = of[i][j];
                    sum.x += weight[i] * x.x, sum.y += weight[i] * x.y;
                    sum.z += weight[i] * x.z, sum.w += weight[i] * x.w;
                }
            }
        }
    }

    /// Calls `write(number, sum)` for the thread's numbers of one of its rows.
    template <typename Write> DEVICE void each(int row, u32 dim, const Write &write) const {
        const Place at = place_of_thread();
#pragma unroll
        for (int j = 0; j < Sizes<TILE>::FOURS; j++) {
            const float four[4] = {of[row][j].x, of[row][j].y, of[row][j].z, of[row][j].w};
            const u32 number = 4 * (at.x + SIDE * j);
#pragma unroll
            for (u32 i = 0; i < 4; i++)
                if (number + i < dim) write(number + i, four[i]);
        }
    }
};

/// A block's shared memory, part by part.
struct Parts {
    float *next;

    /// Room for some rows.
    DEVICE float *tile(u32 rows, u32 dim) { return numbers(rows * width_of(dim)); }
    DEVICE float *numbers(u32 count) {
        float *part = next;
        next += count;
        return part;
    }
};

/// Among the sixteen threads that have a row.
DEVICE float row_sum(float x) {
#pragma unroll
    for (int step = SIDE / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}
DEVICE float row_max(float x) {
#pragma unroll
    for (int step = SIDE / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

/// Tokens that see one of the `count` slots whose positions are in shared memory.
DEVICE TokenSpan tokens_that_see(const ReplayStep &p, const i32 *positions, u32 count) {
    i32 least = NOWHERE, most = -1;
    for (u32 i = 0; i < count; i++) {
        least = min(least, positions[i]);
        if (positions[i] != NOWHERE) most = max(most, positions[i]);
    }
    return tokens_that_see(p, least, most);
}
