//! Numbers from a seed, the same on every machine.

use crate::linear::weight_format::WeightFormat;

use half::{bf16, f16};

/// SplitMix64: a counter and a mix of its bits.
pub struct SplitMix {
    state: u64,
}

impl SplitMix {
    pub fn new(seed: u64) -> Self {
        SplitMix { state: seed }
    }

    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `0..end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// From -1 to 1.
    pub fn number(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.number()).collect()
    }

    /// `0..count` in random order.
    pub fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for i in (1..count).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }

    /// Bytes of `count` weights: random blocks with finite scales.
    pub fn weights(&mut self, format: WeightFormat, count: usize) -> Vec<u8> {
        let numbers = self.numbers(count).into_iter();
        match format {
            WeightFormat::F32 => return numbers.flat_map(f32::to_le_bytes).collect(),
            WeightFormat::F16 => {
                return numbers.flat_map(|x| f16::from_f32(x).to_le_bytes()).collect();
            }
            WeightFormat::Bf16 => {
                return numbers.flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect();
            }
            _ => {}
        }
        let len = format.row_bytes(count).expect("whole blocks");
        let mut bytes: Vec<u8> = (0..len).map(|_| self.bits() as u8).collect();
        for block in bytes.chunks_exact_mut(format.block_bytes()) {
            for at in scale_offsets(format) {
                let scale = f16::from_f32(self.number() / 16.0 / most_factor(format));
                block[*at..at + 2].copy_from_slice(&scale.to_le_bytes());
            }
        }
        bytes
    }
}

/// The most that small integers of a block multiply its f16 scale by.
fn most_factor(format: WeightFormat) -> f32 {
    match format {
        WeightFormat::Q2K => 15.0,
        WeightFormat::Q3K => 32.0,
        WeightFormat::Q4K | WeightFormat::Q5K => 63.0,
        WeightFormat::Q6K => 128.0,
        _ => 1.0,
    }
}

/// Where a block holds f16 numbers.
fn scale_offsets(format: WeightFormat) -> &'static [usize] {
    match format {
        WeightFormat::F32 | WeightFormat::F16 | WeightFormat::Bf16 => &[],
        WeightFormat::Q4_0 | WeightFormat::Q5_0 | WeightFormat::Q8_0 | WeightFormat::Iq4Nl => &[0],
        WeightFormat::Q4_1 | WeightFormat::Q5_1 | WeightFormat::Q4K | WeightFormat::Q5K => &[0, 2],
        WeightFormat::Q2K => &[80, 82],
        WeightFormat::Q3K => &[108],
        WeightFormat::Q6K => &[208],
    }
}
