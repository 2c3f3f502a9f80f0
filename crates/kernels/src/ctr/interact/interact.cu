// ptx: f32 -DACT=float
// ptx: bf16 -DACT=bf16 -DHALF
// ptx: f16 -DACT=f16 -DHALF
//
// Dot products of a sample's vectors with each other:
//
//     out = bottom, then vector[i] . vector[j] for j = 1, 2, .. and i = 0 .. j - 1, then zeros
//
// where vector 0 is `bottom` and the others are embedded. With numbers of half width a warp has the
// vectors of a sample in shared memory and multiplies them as one matrix with itself on tensor
// cores; of the square only tiles that reach below the diagonal are computed. Bound by memory: a
// sample's vectors are read once.

#include "prelude.cuh"

struct InteractParams {
    const ACT *bottom;   // [samples, dim], rows of `bottom_stride`
    const ACT *embedded; // [samples, (vectors - 1) * dim], rows of `embedded_stride`
    ACT *out;            // [samples, width], rows of `out_stride`
    u32 samples, vectors, dim, width;
    u32 bottom_stride, embedded_stride, out_stride;
};

DEVICE const ACT *vector_at(const InteractParams &p, u32 sample, u32 vector) {
    if (vector == 0) return p.bottom + (u64)sample * p.bottom_stride;
    return p.embedded + (u64)sample * p.embedded_stride + (u64)(vector - 1) * p.dim;
}

DEVICE u32 pairs_before(u32 vector) {
    return vector * (vector - 1) / 2;
}

/// The second vector of a pair.
DEVICE u32 second_of(u32 pair) {
    u32 second = (u32)((1.0f + sqrtf(1.0f + 8.0f * (float)pair)) * 0.5f);
    while (pairs_before(second) > pair) second--;
    while (pairs_before(second + 1) <= pair) second++;
    return second;
}

/// Grid: a block for each sample.
KERNEL __launch_bounds__(128) interact_plain(const __grid_constant__ InteractParams p) {
    let_next_start();
    wait_for_inputs();
    const u32 sample = blockIdx.x, pairs = pairs_before(p.vectors);
    ACT *out = p.out + (u64)sample * p.out_stride;
    for (u32 i = threadIdx.x; i < p.dim; i += blockDim.x) out[i] = vector_at(p, sample, 0)[i];
    for (u32 pair = threadIdx.x; pair < p.width - p.dim; pair += blockDim.x) {
        float sum = 0.0f;
        if (pair < pairs) {
            const u32 second = second_of(pair), first = pair - pairs_before(second);
            const ACT *a = vector_at(p, sample, first), *b = vector_at(p, sample, second);
            for (u32 i = 0; i < p.dim; i++) sum = fmaf(widen(a[i]), widen(b[i]), sum);
        }
        out[p.dim + pair] = round_to<ACT>(sum);
    }
}

#ifdef HALF

/// Rows of a sample's matrix in shared memory lie so that those read together are in other banks.
DEVICE u32 row_stride(const InteractParams &p) {
    return (p.dim + 8) * sizeof(ACT);
}

template <u32 TILES> DEVICE void bring_vectors(const InteractParams &p, u32 sample, u32 shared) {
    const u32 lane = threadIdx.x % 32, chunks = p.dim / 8;
    for (u32 i = lane; i < TILES * 16 * chunks; i += 32) {
        const u32 row = i / chunks, chunk = i % chunks;
        const bool is_there = row < p.vectors;
        const ACT *from = vector_at(p, sample, is_there ? row : 0) + chunk * 8;
        copy_async16(shared + row * row_stride(p) + chunk * 16, from, is_there);
    }
    copy_async_commit();
    copy_async_wait<0>();
    __syncwarp();
}

template <u32 TILES>
DEVICE void multiply_vectors(const InteractParams &p, u32 shared,
                             float (&sums)[TILES][2 * TILES][4]) {
    const u32 lane = threadIdx.x % 32;
    const u32 mine = shared + lane % 16 * row_stride(p) + lane / 16 * 16;
    for (u32 column = 0; column < p.dim; column += 16) {
        // What a tile of rows is on the left, its two halves are on the right.
        u32 rows[TILES][4];
#pragma unroll
        for (u32 tile = 0; tile < TILES; tile++)
            load_matrices(rows[tile], mine + tile * 16 * row_stride(p) + column * sizeof(ACT));
#pragma unroll
        for (u32 tile = 0; tile < TILES; tile++) {
#pragma unroll
            for (u32 half = 0; half < 2 * tile + 2; half++) {
                const u32 right[2] = {rows[half / 2][half % 2], rows[half / 2][2 + half % 2]};
                mma<ACT>(sums[tile][half], rows[tile], right);
            }
        }
    }
}

/// Grid: four samples a block, a warp each.
template <u32 TILES> DEVICE void interact(const InteractParams &p) {
    extern __shared__ __align__(16) u8 memory[];
    let_next_start();
    wait_for_inputs();
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 sample = blockIdx.x * (blockDim.x / 32) + warp;
    if (sample >= p.samples) return;
    u8 *own = memory + warp * TILES * 16 * row_stride(p);
    bring_vectors<TILES>(p, sample, shared_address(own));
    ACT *out = p.out + (u64)sample * p.out_stride;
    for (u32 i = lane; i < p.dim / 8; i += 32) store16(out + i * 8, load16(own + i * 16));
    float sums[TILES][2 * TILES][4] = {};
    multiply_vectors<TILES>(p, shared_address(own), sums);
    // The pairs take the place of the vectors, and leave in their order.
    __syncwarp();
    ACT *pairs = (ACT *)own;
#pragma unroll
    for (u32 tile = 0; tile < TILES; tile++) {
#pragma unroll
        for (u32 half = 0; half < 2 * tile + 2; half++) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const u32 second = tile * 16 + lane / 4 + i / 2 * 8;
                const u32 first = half * 8 + lane % 4 * 2 + i % 2;
                if (first < second && second < p.vectors)
                    pairs[pairs_before(second) + first] = round_to<ACT>(sums[tile][half][i]);
            }
        }
    }
    const u32 count = p.width - p.dim;
    for (u32 i = pairs_before(p.vectors) + lane; i < count; i += 32) pairs[i] = round_to<ACT>(0.0f);
    __syncwarp();
    for (u32 i = lane; i < count / 8; i += 32) store16(out + p.dim + i * 8, load16(pairs + i * 8));
    for (u32 i = count / 8 * 8 + lane; i < count; i += 32) out[p.dim + i] = pairs[i];
}

KERNEL __launch_bounds__(128) interact_16(const __grid_constant__ InteractParams p) {
    interact<1>(p);
}
KERNEL __launch_bounds__(128) interact_32(const __grid_constant__ InteractParams p) {
    interact<2>(p);
}
KERNEL __launch_bounds__(128) interact_48(const __grid_constant__ InteractParams p) {
    interact<3>(p);
}

#endif
