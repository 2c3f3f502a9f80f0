//! Formats whose blocks hold 256 weights: integers, and factors for each sixteen of them.
//!
//! The text below is compiled for every level (it is inlined where the level's instructions are
//! known), so all give the same bits. Where a format has 32 weights to a factor, two sixteens have
//! the same.

use half::f16;

use crate::linear::weight_format::WeightFormat;

/// Weight `i` is `scales[i / 16] * quants[i] - leasts[i / 16]`, each step rounded.
pub(crate) struct SuperBlock {
    pub(crate) quants: [i8; 256],
    pub(crate) scales: [f32; 16],
    pub(crate) leasts: [f32; 16],
}

/// All blocks of a row, or false when the format has none of this kind.
#[inline(always)]
pub(crate) fn unpack(format: WeightFormat, bytes: &[u8], out: &mut [f32]) -> bool {
    match format {
        WeightFormat::Q2K => each(bytes, out, SuperBlock::q2_k),
        WeightFormat::Q3K => each(bytes, out, SuperBlock::q3_k),
        WeightFormat::Q4K => each(bytes, out, SuperBlock::q4_k),
        WeightFormat::Q5K => each(bytes, out, SuperBlock::q5_k),
        WeightFormat::Q6K => each(bytes, out, SuperBlock::q6_k),
        _ => return false,
    }
    true
}

#[inline(always)]
fn each<const BYTES: usize>(
    bytes: &[u8],
    out: &mut [f32],
    read: impl Fn(&[u8; BYTES]) -> SuperBlock,
) {
    for (block, out) in bytes.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        read(block).write(out);
    }
}

impl SuperBlock {
    /// `[16 bytes: 4-bit scale, 4-bit least][64 bytes of four][f16 scale][f16 least]`
    #[inline(always)]
    pub(crate) fn q2_k(block: &[u8; 84]) -> SuperBlock {
        let (scale, least) = (f16_at(block, 80), f16_at(block, 82));
        SuperBlock {
            quants: two_bits(&block[16..80]),
            scales: std::array::from_fn(|i| scale * f32::from(block[i] & 15)),
            leasts: std::array::from_fn(|i| least * f32::from(block[i] >> 4)),
        }
    }

    /// `[32 bytes: third bits][64 bytes of four][12 bytes: sixteen 6-bit scales][f16 scale]`; a
    /// third bit that is not set takes 4 away.
    #[inline(always)]
    pub(crate) fn q3_k(block: &[u8; 110]) -> SuperBlock {
        let mut quants = two_bits(&block[32..96]);
        quants.iter_mut().for_each(|quant| *quant = quant.wrapping_sub(4));
        add_where_set(&mut quants, &block[..32], 4);
        let (packed, scale) = (&block[96..108], f16_at(block, 108));
        let sub_scale = |i: usize| {
            let low = packed[i % 8] >> (i / 8 * 4) & 15;
            let high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
            f32::from(low | high << 4) - 32.0
        };
        SuperBlock {
            quants,
            scales: std::array::from_fn(|i| scale * sub_scale(i)),
            leasts: [0.0; 16],
        }
    }

    /// `[f16 scale][f16 least][12 bytes: eight pairs of 6-bit (scale, least)][128 bytes of pairs]`
    #[inline(always)]
    pub(crate) fn q4_k(block: &[u8; 144]) -> SuperBlock {
        let (scales, leasts) = eight_scales_and_leasts(&block[..16]);
        SuperBlock { quants: four_bits(&block[16..]), scales, leasts }
    }

    /// As Q4_K, with `[32 bytes: fifth bits]` before the pairs; bit `i` of a byte is for run `i`.
    #[inline(always)]
    pub(crate) fn q5_k(block: &[u8; 176]) -> SuperBlock {
        let (scales, leasts) = eight_scales_and_leasts(&block[..16]);
        let mut quants = four_bits(&block[48..]);
        add_where_set(&mut quants, &block[16..48], 16);
        SuperBlock { quants, scales, leasts }
    }

    /// `[128 bytes: low four bits][64 bytes: high two bits][16 signed sub scales][f16 scale]`,
    /// 32 above the quant; each half of the block interleaves four runs of 32 weights.
    #[inline(always)]
    pub(crate) fn q6_k(block: &[u8; 210]) -> SuperBlock {
        let mut quants = two_bits(&block[128..192]);
        let halves = quants.as_chunks_mut::<128>().0.iter_mut().zip(block.as_chunks::<64>().0);
        for (quants, low) in halves {
            for i in 0..64 {
                quants[i] = (quants[i] << 4 | (low[i] & 15) as i8).wrapping_sub(32);
                quants[i + 64] = (quants[i + 64] << 4 | (low[i] >> 4) as i8).wrapping_sub(32);
            }
        }
        let scale = f16_at(block, 208);
        let scales = std::array::from_fn(|i| scale * f32::from(block[192 + i] as i8));
        SuperBlock { quants, scales, leasts: [0.0; 16] }
    }

    #[inline(always)]
    fn write(&self, out: &mut [f32; 256]) {
        for (i, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            for (j, out) in out.iter_mut().enumerate() {
                *out = self.scales[i] * f32::from(self.quants[16 * i + j]) - self.leasts[i];
            }
        }
    }
}

/// Each 32 bytes hold four runs of 32, the lowest bits first.
#[inline(always)]
fn two_bits(fours: &[u8]) -> [i8; 256] {
    let mut quants = [0; 256];
    let halves = quants.as_chunks_mut::<128>().0.iter_mut().zip(fours.as_chunks::<32>().0);
    for (quants, fours) in halves {
        for i in 0..32 {
            quants[i] = (fours[i] & 3) as i8;
            quants[i + 32] = (fours[i] >> 2 & 3) as i8;
            quants[i + 64] = (fours[i] >> 4 & 3) as i8;
            quants[i + 96] = (fours[i] >> 6) as i8;
        }
    }
    quants
}

/// Each 32 bytes hold two runs of 32, low halves first.
#[inline(always)]
fn four_bits(pairs: &[u8]) -> [i8; 256] {
    let mut quants = [0; 256];
    let quarters = quants.as_chunks_mut::<64>().0.iter_mut().zip(pairs.as_chunks::<32>().0);
    for (quants, pairs) in quarters {
        for i in 0..32 {
            quants[i] = (pairs[i] & 15) as i8;
            quants[i + 32] = (pairs[i] >> 4) as i8;
        }
    }
    quants
}

/// Adds `value` where bit `run` of a byte is set, run by run.
#[inline(always)]
fn add_where_set(quants: &mut [i8; 256], bits: &[u8], value: i8) {
    for (run, quants) in quants.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let bit = 1 << run;
        for (quant, bits) in quants.iter_mut().zip(bits) {
            *quant = quant.wrapping_add(if bits & bit == 0 { 0 } else { value });
        }
    }
}

/// `[f16 scale][f16 least][12 bytes: eight pairs of 6-bit (scale, least)]`
#[inline(always)]
fn eight_scales_and_leasts(head: &[u8]) -> ([f32; 16], [f32; 16]) {
    let (scale, least, packed) = (f16_at(head, 0), f16_at(head, 2), &head[4..16]);
    let pairs: [(u8, u8); 8] = std::array::from_fn(|run| q4_k_scale_and_least(packed, run));
    (
        std::array::from_fn(|i| scale * f32::from(pairs[i / 2].0)),
        std::array::from_fn(|i| least * f32::from(pairs[i / 2].1)),
    )
}

/// The first four runs have their six bits in one byte each; the last four have four bits in bytes
/// 8..12 and two bits at the top of the first four's bytes.
#[inline(always)]
pub(crate) fn q4_k_scale_and_least(packed: &[u8], run: usize) -> (u8, u8) {
    if run < 4 {
        return (packed[run] & 63, packed[run + 4] & 63);
    }
    let low = packed[run + 4];
    (low & 15 | packed[run - 4] >> 6 << 4, low >> 4 | packed[run] >> 6 << 4)
}

#[inline(always)]
fn f16_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}
