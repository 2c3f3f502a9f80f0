// ptx: any
//
// The way from one product to attention over slots: heads are normalised where the model asks for
// it and rotated; queries go to a buffer, keys and values into the slots chosen for them, with what
// policies want to know.
//
// One warp has a query head, or a kv head with its key and its value: what storing them loses is
// one number. The quantisers are those of quantise/, operation by operation, so that a page means
// the same everywhere.
//
// Roofline: bound by memory in large batches (each number read and written once); a step of few
// tokens is bound by the latency of one chain of loads.

#include "slots.cuh"
#include "heads.cuh"
#include "quantise_row.cuh"

static const int WARPS = 8;

struct SlotStoreParams {
    LayerSlots layer;
    LiveHeads live;
    LiveRows rows;
    /// Of queries as protected keys see them; null where nothing is re-rotated.
    Angles rerotated;
    /// i32 [tokens, kv_heads]: of this layer.
    const i32 *slots;
    /// f32 [tokens, query_stride]: a row's queries, then from `heads * dim` on the re-rotated ones.
    float *queries;
    i32 query_stride;
    /// Whether keys are rotated before they are stored.
    i32 rotates_keys;
};

// ---- Rows, as they are stored.

/// Byte `i` of a row with these quantised values, two to a byte in the four-bit formats.
DEVICE u32 packed_byte(i32 format, const u8 *quants, i32 dim, i32 i) {
    if (format == ASYMMETRIC_4) return quants[i] << 4 | quants[i + dim / 2];
    if (format == FLOAT_4) return quants[2 * i] << 4 | quants[2 * i + 1];
    return quants[i];
}

/// Writes a row into its slot, and makes of it what it reads as from now on. `quants`: room for one
/// byte a number.
template <int GROUPS>
DEVICE void store_row(const SlotStoreParams &p, const Side &side, const SlotLocation &location,
                      Row<GROUPS> &row, u8 *quants, int lane) {
    u8 *to = location.page + side.numbers + (u64)location.row * side.row_bytes;
    const i32 dim = p.layer.dim, format = side.format;
    if (format == F32_ROWS) return store_head<float>(p.live, (float *)to, row, lane);
    if (format == F16_ROWS || format == BF16_ROWS) {
        if (format == F16_ROWS) store_head<f16>(p.live, (f16 *)to, row, lane);
        else store_head<bf16>(p.live, (bf16 *)to, row, lane);
#pragma unroll
        for (int i = 0; i < 4 * GROUPS; i++) {
            float &x = row.x[i / 4][i % 4];
            x = format == F16_ROWS ? widen(narrow<f16>(x)) : widen(narrow<bf16>(x));
        }
        return;
    }
    const RowScale made = scale_for(format, row, dim, lane);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4 * GROUPS; i++) {
        const i32 at = i / 4 * 128 + 4 * lane + i % 4;
        if (at >= dim) continue;
        float &x = row.x[i / 4][i % 4];
        const u32 quant = quantise(format, p.layer.books, made, x);
        quants[at] = quant;
        x = dequantised(format, p.layer.books, quant, made.scale, made.zero);
    }
    __syncwarp();
    for (u32 i = lane; i < side.row_bytes; i += 32) to[i] = packed_byte(format, quants, dim, i);
    if (lane == 0) {
        u32 *scale = scale_at(side, location);
        scale[0] = __float_as_uint(made.scale);
        if (has_zero_point(format)) scale[1] = (u32)made.zero;
    }
}

// ---- Notes, in f64 as on the host.

DEVICE double warp_sum(double x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

/// L2 norm of a - b.
template <int GROUPS> DEVICE float distance(const Row<GROUPS> &a, const Row<GROUPS> &b) {
    double squares = 0.0;
#pragma unroll
    for (int i = 0; i < 4 * GROUPS; i++) {
        const double x = a.x[i / 4][i % 4] - b.x[i / 4][i % 4];
        squares += x * x;
    }
    return (float)sqrt(warp_sum(squares));
}

// ---- Heads.

template <int GROUPS>
DEVICE void take_query(const SlotStoreParams &p, i32 token, i32 index, float *shared, int lane) {
    Row<GROUPS> row = load_head<GROUPS>(p.live, {token, 0, index}, lane);
    if (p.live.q_norm) normalise(p.live, p.live.q_norm, row, lane);
    float *to = p.queries + (u64)token * p.query_stride + index * p.layer.dim;
    if (p.rerotated.cos) {
        Row<GROUPS> rerotated = row;
        rotate(p.live, p.rerotated, token, shared, rerotated, lane);
        store_head<float>(p.live, to + p.live.heads * p.layer.dim, rerotated, lane);
    }
    rotate(p.live, p.live.angles, token, shared, row, lane);
    store_head<float>(p.live, to, row, lane);
}

template <int GROUPS>
DEVICE void take_kv(const SlotStoreParams &p, i32 token, i32 kv_head, float *shared, int lane) {
    Row<GROUPS> key = load_head<GROUPS>(p.live, {token, 1, kv_head}, lane);
    Row<GROUPS> value = load_head<GROUPS>(p.live, {token, 2, kv_head}, lane);
    const i32 seq = seq_of_row(p.rows, token);
    if (p.rows.rules[seq].past < 0) return;
    const i32 slot = p.slots[token * p.layer.kv_heads + kv_head];
    const SlotLocation location = locate_slot(p.layer, table_of(p.rows, seq), kv_head, slot);
    if (p.live.k_norm) normalise(p.live, p.live.k_norm, key, lane);
    if (p.rotates_keys) rotate(p.live, p.live.angles, token, shared, key, lane);
    const Row<GROUPS> live_key = key, live_value = value;
    store_row(p, p.layer.keys, location, key, (u8 *)shared, lane);
    store_row(p, p.layer.values, location, value, (u8 *)shared, lane);
    if (p.layer.value_norms) {
        const float norm = distance(live_value, Row<GROUPS>{});
        if (lane == 0) *note_at(p.layer.value_norms, location) = norm;
    }
    if (p.layer.errors) {
        const float lost = distance(live_key, key) + distance(live_value, value);
        if (lane == 0) *note_at(p.layer.errors, location) = lost;
    }
}

/// Grid: tokens, and enough blocks of `WARPS` heads for queries and kv heads.
KERNEL __launch_bounds__(WARPS * 32) slot_store(const __grid_constant__ SlotStoreParams p) {
    __shared__ alignas(16) float rows[WARPS][HEAD_DIM_MAX];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const i32 index = blockIdx.y * WARPS + warp, heads = p.live.heads;
    // In this order: attention reads keys of earlier steps before it waits for this kernel.
    wait_for_inputs();
    let_next_start();
    if (index >= heads + p.layer.kv_heads) return;
    if (p.layer.dim <= 128) {
        if (index < heads) take_query<1>(p, blockIdx.x, index, rows[warp], lane);
        else take_kv<1>(p, blockIdx.x, index - heads, rows[warp], lane);
    } else {
        if (index < heads) take_query<2>(p, blockIdx.x, index, rows[warp], lane);
        else take_kv<2>(p, blockIdx.x, index - heads, rows[warp], lane);
    }
}
