//! One row's part of a block, number by number: how panels are packed, and read back plainly.

use half::f16;

use super::panel_format::{OPERANDS, PanelFormat, place_of};
use crate::linear::unpack::reference::IQ4_NL_NUMBERS;
use crate::linear::unpack::super_block::q4_k_scale_and_least;
use crate::linear::weight_format::WeightFormat;
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS};

/// 32 weights of one row and their scales, without loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowBlock {
    pub(crate) quants: [u8; BLOCK_COLUMNS],
    /// Scale and least: of the block, or of its head.
    pub(crate) sides: [f16; 2],
    /// In a layered format, what those are multiplied by for each group of columns.
    pub(crate) factors: [[i8; 2]; 2],
}

impl RowBlock {
    /// Columns from `32 block` on of a row as the file has it.
    pub(crate) fn read(format: WeightFormat, row: &[u8], block: usize) -> Self {
        let file_block = block * BLOCK_COLUMNS / format.block_weights();
        let bytes = &row[file_block * format.block_bytes()..][..format.block_bytes()];
        let inside = block % (format.block_weights() / BLOCK_COLUMNS);
        match format {
            WeightFormat::Q4_0 => Self::plain([f16_at(bytes, 0), f16::ZERO], nibbles(&bytes[2..])),
            WeightFormat::Q4_1 => {
                Self::plain([f16_at(bytes, 0), f16_at(bytes, 2)], nibbles(&bytes[4..]))
            }
            WeightFormat::Q5_0 => {
                Self::plain([f16_at(bytes, 0), f16::ZERO], with_fifth_bits(&bytes[2..]))
            }
            WeightFormat::Q5_1 => {
                Self::plain([f16_at(bytes, 0), f16_at(bytes, 2)], with_fifth_bits(&bytes[4..]))
            }
            WeightFormat::Q8_0 => {
                let quants = std::array::from_fn(|i| bytes[2 + i] ^ 0x80);
                Self::plain([f16_at(bytes, 0), f16::ZERO], quants)
            }
            WeightFormat::Iq4Nl => {
                let number = |q: u8| IQ4_NL_NUMBERS[usize::from(q)] as u8 ^ 0x80;
                Self::plain([f16_at(bytes, 0), f16::ZERO], nibbles(&bytes[2..]).map(number))
            }
            WeightFormat::Q2K => Self::q2_k(bytes, inside),
            WeightFormat::Q3K => Self::q3_k(bytes, inside),
            WeightFormat::Q4K => Self::q4_k(bytes, inside),
            WeightFormat::Q5K => Self::q5_k(bytes, inside),
            WeightFormat::Q6K => Self::q6_k(bytes, inside),
            other => unreachable!("{} has no quantised blocks", other.name()),
        }
    }

    fn plain(sides: [f16; 2], quants: [u8; BLOCK_COLUMNS]) -> Self {
        RowBlock { quants, sides, factors: [[0; 2]; 2] }
    }

    fn q4_k(bytes: &[u8], inside: usize) -> Self {
        let (scale, least) = q4_k_scale_and_least(&bytes[4..16], inside);
        let pairs = &bytes[16 + inside / 2 * 32..];
        RowBlock {
            quants: std::array::from_fn(|i| pairs[i] >> (inside % 2 * 4) & 15),
            // The file's is subtracted.
            sides: [f16_at(bytes, 0), -f16_at(bytes, 2)],
            factors: [[scale as i8; 2], [least as i8; 2]],
        }
    }

    /// As Q4_K, with a fifth bit of each weight before the pairs.
    fn q5_k(bytes: &[u8], inside: usize) -> Self {
        let (scale, least) = q4_k_scale_and_least(&bytes[4..16], inside);
        let (fifth, pairs) = (&bytes[16..48], &bytes[48 + inside / 2 * 32..]);
        RowBlock {
            quants: std::array::from_fn(|i| {
                pairs[i] >> (inside % 2 * 4) & 15 | (fifth[i] >> inside & 1) << 4
            }),
            sides: [f16_at(bytes, 0), -f16_at(bytes, 2)],
            factors: [[scale as i8; 2], [least as i8; 2]],
        }
    }

    fn q2_k(bytes: &[u8], inside: usize) -> Self {
        let factors = [bytes[2 * inside], bytes[2 * inside + 1]];
        RowBlock {
            quants: two_bits(&bytes[16..80], inside),
            sides: [f16_at(bytes, 80), -f16_at(bytes, 82)],
            factors: [factors.map(|pair| (pair & 15) as i8), factors.map(|pair| (pair >> 4) as i8)],
        }
    }

    fn q3_k(bytes: &[u8], inside: usize) -> Self {
        let (third, packed) = (&bytes[..32], &bytes[96..108]);
        let low = two_bits(&bytes[32..96], inside);
        let factor = |i: usize| {
            let low = packed[i % 8] >> (i / 8 * 4) & 15;
            let high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
            (low | high << 4) as i8 - 32
        };
        RowBlock {
            quants: std::array::from_fn(|i| low[i] | (third[i] >> inside & 1) << 2),
            sides: [f16_at(bytes, 108), f16::ZERO],
            factors: [[factor(2 * inside), factor(2 * inside + 1)], [0; 2]],
        }
    }

    fn q6_k(bytes: &[u8], inside: usize) -> Self {
        let (half, run) = (inside / 4, inside % 4);
        let low = &bytes[half * 64 + run % 2 * 32..];
        let high = &bytes[128 + half * 32..];
        let scales = &bytes[192 + half * 8 + run * 2..];
        RowBlock {
            quants: std::array::from_fn(|i| {
                low[i] >> (run / 2 * 4) & 15 | (high[i] >> (run * 2) & 3) << 4
            }),
            sides: [f16_at(bytes, 208), f16::ZERO],
            factors: [[scales[0] as i8, scales[1] as i8], [0; 2]],
        }
    }

    /// Puts the block into lane `lane` of a panel.
    pub(crate) fn pack<F: PanelFormat>(&self, panel: &mut [u8], block: usize, lane: usize) {
        let at = F::block_at(block);
        for side in 0..F::SIDES {
            let bits = self.sides[side].to_le_bytes();
            let start = if F::LAYERED { F::head_at(block) } else { at };
            panel[start + 2 * (side * PANEL_ROWS + lane)..][..2].copy_from_slice(&bits);
            for group in 0..F::GROUPS {
                if F::LAYERED {
                    let place = at + (side * F::GROUPS + group) * PANEL_ROWS + lane;
                    panel[place] = self.factors[side][group] as u8;
                }
            }
        }
        let (high, low) = panel[at + F::SCALE_BYTES..][..F::HIGH_BYTES + F::LOW_BYTES]
            .split_at_mut(F::HIGH_BYTES);
        self.pack_bits(low, lane, F::LOW_BITS, 0);
        if 0 < F::HIGH_BITS {
            self.pack_bits(high, lane, F::HIGH_BITS, F::LOW_BITS);
        }
    }

    /// `bits` bits of each weight from bit `from` on, as [`PanelFormat`] lays them out.
    #[inline(always)]
    fn pack_bits(&self, out: &mut [u8], lane: usize, bits: usize, from: usize) {
        let mask = (1 << bits) - 1;
        let mut packed = [0; OPERANDS / 2];
        for t in 0..OPERANDS {
            let (vector, place) = place_of(bits, t);
            let [a, b] =
                [self.quants[2 * t], self.quants[2 * t + 1]].map(|q| u32::from(q) >> from & mask);
            packed[vector] |= (b << 16 | a) << (place * bits);
        }
        for (out, packed) in out.chunks_exact_mut(4 * PANEL_ROWS).zip(packed) {
            out[4 * lane..4 * lane + 4].copy_from_slice(&packed.to_le_bytes());
        }
    }

    /// Takes the block out of lane `lane` of a panel.
    pub(crate) fn unpack<F: PanelFormat>(panel: &[u8], block: usize, lane: usize) -> Self {
        let at = F::block_at(block);
        let mut result = Self::plain([f16::ZERO; 2], [0; BLOCK_COLUMNS]);
        for side in 0..F::SIDES {
            let start = if F::LAYERED { F::head_at(block) } else { at };
            result.sides[side] = f16_at(panel, start + 2 * (side * PANEL_ROWS + lane));
            for group in 0..F::GROUPS {
                if F::LAYERED {
                    let place = at + (side * F::GROUPS + group) * PANEL_ROWS + lane;
                    result.factors[side][group] = panel[place] as i8;
                }
            }
        }
        let (high, low) =
            panel[at + F::SCALE_BYTES..][..F::HIGH_BYTES + F::LOW_BYTES].split_at(F::HIGH_BYTES);
        result.add_bits(low, lane, F::LOW_BITS, 0);
        if 0 < F::HIGH_BITS {
            result.add_bits(high, lane, F::HIGH_BITS, F::LOW_BITS);
        }
        result
    }

    fn add_bits(&mut self, packed: &[u8], lane: usize, bits: usize, from: usize) {
        let mask = (1 << bits) - 1;
        for t in 0..OPERANDS {
            let (vector, place) = place_of(bits, t);
            let at = vector * 4 * PANEL_ROWS + 4 * lane;
            let word = u32::from_le_bytes([0, 1, 2, 3].map(|i| packed[at + i]));
            let pair = word >> (place * bits);
            self.quants[2 * t] |= ((pair & mask) << from) as u8;
            self.quants[2 * t + 1] |= ((pair >> 16 & mask) << from) as u8;
        }
    }

    /// Scale and least of the columns of a group.
    pub(crate) fn scale_and_least<F: PanelFormat>(&self, group: usize) -> [f32; 2] {
        [0, 1].map(|side| match F::LAYERED {
            true => self.sides[side].to_f32() * f32::from(self.factors[side][group]),
            false => self.sides[side].to_f32(),
        })
    }

    /// The weights themselves.
    pub(crate) fn weights<F: PanelFormat>(&self) -> [f32; BLOCK_COLUMNS] {
        let offset = F::OFFSET_BITS.map_or(0.0, |bits| (1 << bits) as f32);
        std::array::from_fn(|i| {
            let [scale, least] = self.scale_and_least::<F>(i * F::GROUPS / BLOCK_COLUMNS);
            let product = scale * (f32::from(self.quants[i]) - offset);
            if F::HAS_LEAST { product + least } else { product }
        })
    }
}

/// Block `inside` of 64 bytes whose halves each interleave four runs of 32 two-bit numbers.
fn two_bits(bytes: &[u8], inside: usize) -> [u8; BLOCK_COLUMNS] {
    let bytes = &bytes[inside / 4 * 32..][..32];
    std::array::from_fn(|i| bytes[i] >> (inside % 4 * 2) & 3)
}

/// Low halves of sixteen bytes, then their high halves.
fn nibbles(bytes: &[u8]) -> [u8; BLOCK_COLUMNS] {
    let bytes = &bytes[..16];
    std::array::from_fn(|i| if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 })
}

/// `[32 fifth bits][16 bytes of pairs]`
fn with_fifth_bits(bytes: &[u8]) -> [u8; BLOCK_COLUMNS] {
    let fifth = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let low = nibbles(&bytes[4..]);
    std::array::from_fn(|i| low[i] | ((fifth >> i) as u8 & 1) << 4)
}

fn f16_at(bytes: &[u8], at: usize) -> f16 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]])
}
