// Rows of slots as tiles in shared memory; in other formats than half-width numbers they are
// dequantised to f16. To be included after slot_chunk.cuh, with `Tile`,
// HEAD_DIM, `swizzled`, TILE_ROW_BYTES (from one row to the next) and BRINGERS (threads that bring
// a tile) set.
//
// Lanes dequantise 16 numbers of a row at a time, which are two vectors of a tile. What a lane will
// dequantise in the next tile it copies to a buffer of its own in shared memory, as soon as that
// has been read. Rows that are not there become zeros. Keys that are rotated on read are so in
// their tile.

/// The nearest half-width numbers, the first in the low half.
template <typename T> DEVICE u32 narrow_pair(float low, float high) {
    return narrow<T>(low).bits | (u32)narrow<T>(high).bits << 16;
}
DEVICE void store_vector(u32 shared, const u32 words[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

// ---- What quantised values stand for: the books of DYNAMIC_8 and FLOAT_4, one after the other.

static const int DYNAMIC_VALUES = 256;
static const int BOOK_NUMBERS = DYNAMIC_VALUES + 16;

/// Copies the books if rows are quantised, and waits for the kernels before.
template <int THREADS> DEVICE void begin_block(const LayerSlots &layer, float *books) {
#ifdef QUANTISED
    for (int i = threadIdx.x; i < BOOK_NUMBERS; i += THREADS)
        books[i] = layer.books[i / DYNAMIC_VALUES].values[i % DYNAMIC_VALUES];
#endif
    wait_for_inputs();
    let_next_start();
}

// ---- Where a row is.

/// A row of half-width numbers: bytes from the first page's to it, -1 where there is none.
DEVICE i64 offset_of_row(const LayerSlots &layer, const SlotLocation &location) {
    return location.page ? location.page - layer.pages + (i64)location.row * (HEAD_DIM * 2) : -1;
}

/// Numbers are quantised values times `scale` plus `offset`, which only equal steps have. Null
/// where there is no row.
struct TileRow {
    const u8 *numbers;
    float scale, offset;
};

/// What a quantised value is added to when its bits become some of a float's.
static constexpr float LIFT8 = 32768.0f, LIFT4 = 16.0f;

DEVICE TileRow row_of_slot(const Side &side, const SlotLocation &location) {
    if (!location.page) return {nullptr, 0.0f, 0.0f};
    const StoredRow row = stored_row(side, location);
    const float lift = side.format == ASYMMETRIC_8 ? LIFT8 : LIFT4;
    return {row.numbers, row.scale, -(lift + row.zero) * row.scale};
}

// ---- Sixteen numbers.

template <int FORMAT> struct Quantised {
    static const bool HALVES = FORMAT == BF16_ROWS || FORMAT == F16_ROWS;
    static const bool NIBBLES = FORMAT == ASYMMETRIC_4 || FORMAT == FLOAT_4;
    static const int WORDS = HALVES ? 8 : NIBBLES ? 2 : 4;
    u32 word[WORDS];
};

/// Byte `i` of a word as a float, added to LIFT8.
DEVICE float lifted8(u32 word, int i) {
    return __uint_as_float(__byte_perm(word, 0x47000000, 0x7404 + i * 16));
}
/// The same for four bits, which `ready4` has put where a float's first bits are, and LIFT4.
DEVICE float lifted4(u32 word, int i) {
    return __uint_as_float(__byte_perm(word, 0x41000000, 0x7044 + i * 256));
}
template <bool UPPER> DEVICE u32 ready4(u32 word) {
    return pick(UPPER ? word >> 1 : word << 3, 0x78787878u, 0x80808080u);
}
/// Two fp8 numbers as f16, both times 2^-8: their bits only move.
DEVICE u32 moved_fp8(u32 word, int i) {
    const u32 high = __byte_perm(word, 0, 0x1404 + i % 4 * 0x1010);
    return pick(high >> 1, 0x3f803f80u, high & 0x80008000u);
}

/// Two neighbouring numbers of 16, the first of which is `i`.
template <int FORMAT>
DEVICE u32 decode_pair(const Quantised<FORMAT> &quants, int i, float scale, float offset,
                       const float *books) {
    if (FORMAT == BF16_ROWS)
        return pack<f16>(low_of<bf16>(quants.word[i / 2]), high_of<bf16>(quants.word[i / 2]));
    if (FORMAT == F16_ROWS) return quants.word[i / 2];
    if (FORMAT == ASYMMETRIC_8) {
        const u32 word = quants.word[i / 4];
        return pack<f16>(lifted8(word, i % 4) * scale + offset,
                         lifted8(word, i % 4 + 1) * scale + offset);
    }
    if (FORMAT == ASYMMETRIC_4) {
        // The first eight numbers have the upper halves of bytes, the others the lower ones.
        const u32 word = quants.word[i % 8 / 4];
        const u32 ready = i < 8 ? ready4<true>(word) : ready4<false>(word);
        return pack<f16>(lifted4(ready, i % 4) * scale + offset,
                         lifted4(ready, i % 4 + 1) * scale + offset);
    }
    if (FORMAT == DYNAMIC_8) {
        const u32 pair = quants.word[i / 4] >> i % 4 * 8;
        return pack<f16>(books[pair & 255] * scale, books[pair >> 8 & 255] * scale);
    }
    if (FORMAT == FLOAT_4) {
        const u32 byte = quants.word[i / 8] >> i % 8 / 2 * 8;
        const float *book = books + DYNAMIC_VALUES;
        return pack<f16>(book[byte >> 4 & 15] * scale, book[byte & 15] * scale);
    }
    const u32 moved = moved_fp8(quants.word[i / 4], i);
    return pack<f16>(low_of<f16>(moved) * (256 * scale), high_of<f16>(moved) * (256 * scale));
}

// ---- A tile, of which a warp has 32 rows: each lane knows one, and decodes parts of all.

/// Lanes of a row, and rows that a warp has at a time.
static const int ROW_LANES = HEAD_DIM / 16;
static const int ROWS_AT_ONCE = 32 / ROW_LANES;
/// Of a lane. Eight lanes have parts of two neighbouring rows, which lie in all banks.
DEVICE int part_of(int lane) {
    return ROW_LANES == 8 ? lane % 4 + lane / 8 % 2 * 4 : lane % 4;
}
DEVICE int row_of(int lane) {
    return ROW_LANES == 8 ? lane / 4 % 2 + lane / 16 * 2 : lane / 4;
}

/// Where a vector lies `i` times so many rows further on: four rows on, vectors are exchanged
/// otherwise.
DEVICE u32 moved(u32 at, int i) {
    return (at ^ (ROWS_AT_ONCE == 4 ? i % 2 * 64 : 0)) + i * ROWS_AT_ONCE * TILE_ROW_BYTES;
}

template <int FORMAT> struct RowDecoder {
    static const int BYTES = Quantised<FORMAT>::WORDS * 4;
    /// Of this lane: from one of its places to the next.
    static const int STRIDE = BRINGERS * BYTES;
    u32 waiting;
    int thread;

    /// `shared` has room for a tile as it is stored.
    DEVICE RowDecoder(u32 shared, int thread) : waiting(shared + thread * BYTES), thread(thread) {}

    DEVICE void begin(const TileRow &row) {
#pragma unroll
        for (int i = 0; i < ROW_LANES; i++) copy(row, i);
        copy_async_commit();
    }

    /// Copies this lane's part of the rows at `i`.
    DEVICE void copy(const TileRow &row, int i) {
        const int lane = thread % 32, from = i * ROWS_AT_ONCE + row_of(lane);
        const u8 *numbers = (const u8 *)__shfl_sync(~0u, (u64)row.numbers, from);
        const bool is_there = numbers != nullptr;
        const u8 *at = is_there ? numbers + part_of(lane) * BYTES : nullptr;
        const u32 to = waiting + i * STRIDE;
        if (BYTES == 8) copy_async_small<8>(to, at, is_there);
#pragma unroll
        for (int half = 0; half + 16 <= BYTES; half += 16)
            copy_async16(to + half, at + half, is_there);
    }

    DEVICE Quantised<FORMAT> read(int i) const {
        Quantised<FORMAT> quants;
        const u32 at = waiting + i * STRIDE;
        if (BYTES == 8)
            asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                         : "=r"(quants.word[0]), "=r"(quants.word[1])
                         : "r"(at));
#pragma unroll
        for (int word = 0; word + 4 <= Quantised<FORMAT>::WORDS; word += 4)
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(quants.word[word]), "=r"(quants.word[word + 1]),
                           "=r"(quants.word[word + 2]), "=r"(quants.word[word + 3])
                         : "r"(at + word * 4));
        return quants;
    }

    /// Decodes rows that were begun, and begins the next ones.
    DEVICE void decode(u32 shared, const TileRow &row, const TileRow &next, const float *books) {
        const int lane = thread % 32, part = part_of(lane);
        const bool is_halved = FORMAT == ASYMMETRIC_4;
        const int vector = is_halved ? part : 2 * part;
        const int second = is_halved ? part + ROW_LANES : 2 * part + 1;
        const int first_row = thread / 32 * 32 + row_of(lane);
        const u32 first_at = shared + swizzled(first_row, vector);
        const u32 second_at = shared + swizzled(first_row, second);
        copy_async_wait<0>();
#pragma unroll
        for (int i = 0; i < ROW_LANES; i++) {
            const int from = i * ROWS_AT_ONCE + row_of(lane);
            const float scale = __shfl_sync(~0u, row.scale, from);
            const float offset = __shfl_sync(~0u, row.offset, from);
            const Quantised<FORMAT> quants = read(i);
            u32 pairs[8];
#pragma unroll
            for (int pair = 0; pair < 8; pair++)
                pairs[pair] = decode_pair(quants, 2 * pair, scale, offset, books);
            store_vector(moved(first_at, i), pairs);
            store_vector(moved(second_at, i), pairs + 4);
            copy(next, i);
        }
        copy_async_commit();
    }
};

// ---- Rotation.

DEVICE void load_vector(u32 words[4], u32 shared) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared)
                 : "memory");
}

/// Rotates a warp's 32 rows of a tile; each lane knows by how many positions one is. A lane takes 8
/// pairs of a row at a time, which are two vectors.
DEVICE void rotate_rows(u32 shared, const SeqRotation &rotation, float by, int thread) {
    const int lane = thread % 32, part = lane % ROW_LANES;
    const int first = rotation.is_interleaved ? 2 * part : part;
    const int second = rotation.is_interleaved ? 2 * part + 1 : part + ROW_LANES;
    float inv_freqs[8];
    load8(inv_freqs, rotation.inv_freqs + 8 * part);
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < ROW_LANES; i++) {
        const int in_warp = i * ROWS_AT_ONCE + lane / ROW_LANES;
        const int row = thread / 32 * 32 + in_warp;
        const float positions = __shfl_sync(~0u, by, in_warp);
        const u32 first_at = shared + swizzled(row, first);
        const u32 second_at = shared + swizzled(row, second);
        u32 a[4], b[4];
        load_vector(a, first_at);
        load_vector(b, second_at);
        if (rotation.is_interleaved) {
#pragma unroll
            for (int word = 0; word < 4; word++) {
                rotate_word<Tile>(a[word], Rotation(positions, inv_freqs[word]));
                rotate_word<Tile>(b[word], Rotation(positions, inv_freqs[4 + word]));
            }
        } else {
#pragma unroll
            for (int word = 0; word < 4; word++)
                rotate_words<Tile>(a[word], b[word], Rotation(positions, inv_freqs[2 * word]),
                                 Rotation(positions, inv_freqs[2 * word + 1]));
        }
        store_vector(first_at, a);
        store_vector(second_at, b);
    }
    // The lanes that fill the tile next are others.
    __syncwarp();
}

/// Calls `job.run` for one of the formats.
template <typename Job> DEVICE void with_format(int format, const Job &job) {
    switch (format) {
    case BF16_ROWS: return job.template run<BF16_ROWS>();
    case F16_ROWS: return job.template run<F16_ROWS>();
    case ASYMMETRIC_8: return job.template run<ASYMMETRIC_8>();
    case ASYMMETRIC_4: return job.template run<ASYMMETRIC_4>();
    case DYNAMIC_8: return job.template run<DYNAMIC_8>();
    case FLOAT_4: return job.template run<FLOAT_4>();
    default: return job.template run<FP8_ROWS>();
    }
}
