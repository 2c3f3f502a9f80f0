//! Block by block, weight by weight: the definition of each format.
//!
//! Scales are little-endian f16. Four-bit weights come in pairs: the low halves of a run of bytes
//! are its first weights, the high halves the ones after them.

use half::{bf16, f16};

use crate::weight_format::WeightFormat;

pub(crate) fn unpack(format: WeightFormat, bytes: &[u8], out: &mut [f32]) {
    let unpack_block = match format {
        WeightFormat::F32 => return plain(bytes, out, f32::from_le_bytes),
        WeightFormat::F16 => return plain(bytes, out, |bytes| f16::from_le_bytes(bytes).to_f32()),
        WeightFormat::Bf16 => {
            return plain(bytes, out, |bytes| bf16::from_le_bytes(bytes).to_f32());
        }
        WeightFormat::Q4_0 => q4_0,
        WeightFormat::Q4_1 => q4_1,
        WeightFormat::Q5_0 => q5_0,
        WeightFormat::Q5_1 => q5_1,
        WeightFormat::Q8_0 => q8_0,
        WeightFormat::Q4K => q4_k,
        WeightFormat::Q6K => q6_k,
    };
    let blocks = bytes.chunks_exact(format.block_bytes());
    for (block, out) in blocks.zip(out.chunks_exact_mut(format.block_weights())) {
        unpack_block(block, out);
    }
}

/// Numbers one by one.
fn plain<const BYTES: usize>(bytes: &[u8], out: &mut [f32], widen: impl Fn([u8; BYTES]) -> f32) {
    for (bytes, out) in bytes.as_chunks().0.iter().zip(out) {
        *out = widen(*bytes);
    }
}

/// `[f16 scale][16 bytes of pairs]`, weight = scale (q - 8)
fn q4_0(block: &[u8], out: &mut [f32]) {
    let scale = f16_at(block, 0);
    for (i, pair) in block[2..18].iter().enumerate() {
        out[i] = scale * (f32::from(pair & 15) - 8.0);
        out[i + 16] = scale * (f32::from(pair >> 4) - 8.0);
    }
}

/// `[f16 scale][f16 least][16 bytes of pairs]`, weight = scale q + least
fn q4_1(block: &[u8], out: &mut [f32]) {
    let (scale, least) = (f16_at(block, 0), f16_at(block, 2));
    for (i, pair) in block[4..20].iter().enumerate() {
        out[i] = scale * f32::from(pair & 15) + least;
        out[i + 16] = scale * f32::from(pair >> 4) + least;
    }
}

/// `[f16 scale][32 fifth bits][16 bytes of pairs]`, weight = scale (q - 16)
fn q5_0(block: &[u8], out: &mut [f32]) {
    let scale = f16_at(block, 0);
    for (i, q) in five_bits(&block[2..22]).into_iter().enumerate() {
        out[i] = scale * (f32::from(q) - 16.0);
    }
}

/// `[f16 scale][f16 least][32 fifth bits][16 bytes of pairs]`, weight = scale q + least
fn q5_1(block: &[u8], out: &mut [f32]) {
    let (scale, least) = (f16_at(block, 0), f16_at(block, 2));
    for (i, q) in five_bits(&block[4..24]).into_iter().enumerate() {
        out[i] = scale * f32::from(q) + least;
    }
}

fn five_bits(bytes: &[u8]) -> [u8; 32] {
    let fifth = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let fifth_of = |i: usize| ((fifth >> i) as u8 & 1) << 4;
    let mut q = [0; 32];
    for (i, pair) in bytes[4..].iter().enumerate() {
        q[i] = pair & 15 | fifth_of(i);
        q[i + 16] = pair >> 4 | fifth_of(i + 16);
    }
    q
}

/// `[f16 scale][32 signed bytes]`, weight = scale q
fn q8_0(block: &[u8], out: &mut [f32]) {
    let scale = f16_at(block, 0);
    for (out, &q) in out.iter_mut().zip(&block[2..]) {
        *out = scale * f32::from(q as i8);
    }
}

/// `[f16 scale][f16 least][12 bytes: eight pairs of 6-bit (scale, least)][128 bytes of pairs]`,
/// weight = (scale · sub scale) q - (least · sub least); a run of 32 bytes holds two sub-blocks.
fn q4_k(block: &[u8], out: &mut [f32]) {
    let (scale, least) = (f16_at(block, 0), f16_at(block, 2));
    let (packed, pairs) = block[4..144].split_at(12);
    for (i, out) in out.chunks_exact_mut(32).enumerate() {
        let (sub_scale, sub_least) = q4_k_scale_and_least(packed, i);
        let (scale, least) = (scale * f32::from(sub_scale), least * f32::from(sub_least));
        for (out, pair) in out.iter_mut().zip(&pairs[i / 2 * 32..]) {
            let q = if i % 2 == 0 { pair & 15 } else { pair >> 4 };
            *out = scale * f32::from(q) - least;
        }
    }
}

/// The first four sub-blocks have their six bits in one byte each; the last four have four bits
/// in bytes 8..12 and two bits at the top of the first four's bytes.
pub(crate) fn q4_k_scale_and_least(packed: &[u8], i: usize) -> (u8, u8) {
    if i < 4 {
        return (packed[i] & 63, packed[i + 4] & 63);
    }
    let low = packed[i + 4];
    (low & 15 | packed[i - 4] >> 6 << 4, low >> 4 | packed[i] >> 6 << 4)
}

/// `[128 bytes: low four bits][64 bytes: high two bits][16 signed sub scales][f16 scale]`,
/// weight = (scale · sub scale) (q - 32); sixteen weights share a sub scale, and each half of the
/// block interleaves four runs of 32 weights.
fn q6_k(block: &[u8], out: &mut [f32]) {
    let scale = f16_at(block, 208);
    for (half, out) in out.chunks_exact_mut(128).enumerate() {
        let low = &block[half * 64..];
        let high = &block[128 + half * 32..];
        let sub_scales = &block[192 + half * 8..];
        for (i, out) in out.iter_mut().enumerate() {
            let (run, at) = (i / 32, i % 32);
            let low = low[run % 2 * 32 + at] >> (run / 2 * 4) & 15;
            let high = high[at] >> (run * 2) & 3;
            let scale = scale * f32::from(sub_scales[i / 16] as i8);
            *out = scale * (f32::from(low | high << 4) - 32.0);
        }
    }
}

fn f16_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}
