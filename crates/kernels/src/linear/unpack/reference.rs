//! Block by block, weight by weight: the definition of each format.
//!
//! Scales are little-endian f16. Four-bit weights come in pairs: the low halves of a run of bytes
//! are its first weights, the high halves the ones after them.

use half::{bf16, f16};

use super::super_block;
use crate::linear::weight_format::WeightFormat;

pub(crate) fn unpack(format: WeightFormat, bytes: &[u8], out: &mut [f32]) {
    if super_block::unpack(format, bytes, out) {
        return;
    }
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
        WeightFormat::Iq4Nl => iq4_nl,
        other => unreachable!("{} has blocks of 256", other.name()),
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

pub(crate) fn five_bits(bytes: &[u8]) -> [u8; 32] {
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

/// `[f16 scale][16 bytes of pairs]`, weight = scale · the number that q stands for
fn iq4_nl(block: &[u8], out: &mut [f32]) {
    let scale = f16_at(block, 0);
    for (i, pair) in block[2..18].iter().enumerate() {
        out[i] = scale * f32::from(IQ4_NL_NUMBERS[usize::from(pair & 15)]);
        out[i + 16] = scale * f32::from(IQ4_NL_NUMBERS[usize::from(pair >> 4)]);
    }
}

/// What the four bits of IQ4_NL stand for: closer together near zero, where most weights are.
pub(crate) const IQ4_NL_NUMBERS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

fn f16_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}
