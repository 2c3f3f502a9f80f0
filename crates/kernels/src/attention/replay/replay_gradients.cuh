// Gradients of attention over replayed slots on Hopper: what their kernels share. To be included
// after replay.cuh, with `Tile` (the numbers that are multiplied) and HEAD_DIM set.
//
// Queries and the gradients of their results come to the blocks as images: what a tile of them is
// in shared memory, ready for products, one run of bytes. `replay_prepare` makes them once; every
// block of slots brings them with one instruction each.

/// The gradients are sums over tiles of so many queries, whose images have 16 KiB.
static const u32 QUERIES = 8192 / HEAD_DIM;
static const u32 TILE_NUMBERS = QUERIES * HEAD_DIM;
/// Rows lie in shared memory in parts of 64 numbers, which are 128 bytes.
static const u32 PARTS = HEAD_DIM / 64;
static const u32 QUERY_PART_BYTES = QUERIES * 128;
static const u32 IMAGE_BYTES = PARTS * QUERY_PART_BYTES;

struct ReplayGradientParams : ReplayStep {
    const Tile *out;
    /// [seqs * row_tokens, heads]
    const float *log_sums;
    const float *d_out;
    float *d_query;
    float *d_keys;
    float *d_values;
    // Working memory. Of each tile of each head's queries, [seqs, heads, tiles]: images,
    u8 *query_images;
    u8 *d_out_images;
    /// the logarithms of sums in powers of two and the means d_out . out, [2, QUERIES],
    float *stats;
    /// and sums of d_query as the tensor cores give them, [2, 8, 128, 4].
    float *sums;
    /// [MAXIMA]: the largest size of d_out in each part of it; null where it is taken as it is.
    float *maxima;
    /// What d_out was multiplied by, a power of two.
    float *factor;
    u32 out_stride, d_out_stride, d_query_stride;
    u32 seqs;
    /// Of a head's queries.
    u32 tiles;
};

static const u32 MAXIMA = 256;

DEVICE u64 item_of(const ReplayGradientParams &p, u32 seq, u32 head, u32 tile) {
    return ((u64)seq * p.heads + head) * p.tiles + tile;
}

/// Where a vector of eight numbers of a row is, in a tile whose parts have so many bytes.
DEVICE u32 swizzled(u32 part_bytes, u32 row, u32 vector) {
    return vector / 8 * part_bytes + row * 128 + ((vector % 8 ^ row % 8) << 4);
}
