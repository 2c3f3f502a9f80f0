//! The formats by hand: blocks with a few weights set, and what they mean.

use half::f16;

use super::unpack_row;
use crate::linear::weight_format::WeightFormat;

/// A block with f16 numbers and bytes at their offsets, zero elsewhere.
fn block(format: WeightFormat, numbers: &[(usize, f32)], bytes: &[(usize, u8)]) -> Vec<u8> {
    let mut block = vec![0; format.block_bytes()];
    for &(at, number) in numbers {
        block[at..at + 2].copy_from_slice(&f16::from_f32(number).to_le_bytes());
    }
    for &(at, byte) in bytes {
        block[at] = byte;
    }
    block
}

#[track_caller]
fn check(format: WeightFormat, block: &[u8], rest: f32, wanted: &[(usize, f32)]) {
    let mut weights = vec![f32::NAN; format.block_weights()];
    unpack_row(format, block, &mut weights);
    let mut want = vec![rest; format.block_weights()];
    for &(i, weight) in wanted {
        want[i] = weight;
    }
    assert_eq!(weights, want, "{}", format.name());
}

#[test]
fn plain_numbers() {
    check(WeightFormat::F32, &(-1.5f32).to_le_bytes(), -1.5, &[]);
    check(WeightFormat::F16, &f16::from_f32(-1.5).to_le_bytes(), -1.5, &[]);
    check(WeightFormat::Bf16, &half::bf16::from_f32(-1.5).to_le_bytes(), -1.5, &[]);
}

#[test]
fn four_bits() {
    let q4_0 = block(WeightFormat::Q4_0, &[(0, 2.0)], &[(2, 0x0f), (17, 0x80)]);
    check(WeightFormat::Q4_0, &q4_0, -16.0, &[(0, 14.0), (31, 0.0)]);
    let q4_1 = block(WeightFormat::Q4_1, &[(0, 0.5), (2, -1.0)], &[(4 + 5, 0xa3)]);
    check(WeightFormat::Q4_1, &q4_1, -1.0, &[(5, 0.5), (21, 4.0)]);
}

#[test]
fn five_bits() {
    // Fifth bits of weights 1 and 30.
    let q5_0 = block(WeightFormat::Q5_0, &[(0, 0.5)], &[(2, 0x02), (5, 0x40), (6 + 14, 0x30)]);
    check(WeightFormat::Q5_0, &q5_0, -8.0, &[(1, 0.0), (30, 1.5)]);
    let q5_1 = block(WeightFormat::Q5_1, &[(0, 0.5), (2, 1.0)], &[(4, 0x01), (8, 0xf1)]);
    check(WeightFormat::Q5_1, &q5_1, 1.0, &[(0, 9.5), (16, 8.5)]);
}

#[test]
fn eight_bits() {
    let q8_0 = block(WeightFormat::Q8_0, &[(0, 0.25)], &[(2, 0xff), (33, 0x7f)]);
    check(WeightFormat::Q8_0, &q8_0, 0.0, &[(0, -0.25), (31, 31.75)]);
}

#[test]
fn four_bits_with_scales_of_sub_blocks() {
    // Sub-block 1: scale 3, least 2. Sub-block 5: scale 0x2_1 (two high bits in byte 1), least
    // 0x1_3 (two high bits in byte 5).
    let packed = [(4 + 1, 0x80 | 3), (4 + 5, 0x40 | 2), (4 + 9, 0x31)];
    let pairs = [(16 + 7, 0x50), (16 + 64 + 31, 0x20)];
    let bytes = [&packed[..], &pairs[..]].concat();
    let q4_k = block(WeightFormat::Q4K, &[(0, 2.0), (2, 0.5)], &bytes);
    let mut weights = vec![f32::NAN; 256];
    unpack_row(WeightFormat::Q4K, &q4_k, &mut weights);
    for (i, weight) in weights.into_iter().enumerate() {
        let want = match i {
            39 => 2.0 * 3.0 * 5.0 - 0.5 * 2.0,
            191 => 2.0 * f32::from(0x21u8) * 2.0 - 0.5 * f32::from(0x13u8),
            32..64 => -0.5 * 2.0,
            160..192 => -0.5 * f32::from(0x13u8),
            _ => 0.0,
        };
        assert_eq!(weight, want, "weight {i}");
    }
}

#[test]
fn six_bits() {
    // Second half, run 3, weight 20: low bits in a high half, high bits on top of their byte.
    let bytes = [(64 + 32 + 20, 0x90), (128 + 32 + 20, 0xc0), (192 + 8 + 7, 0xfe)];
    let q6_k = block(WeightFormat::Q6K, &[(208, 0.5)], &bytes);
    let mut weights = vec![f32::NAN; 256];
    unpack_row(WeightFormat::Q6K, &q6_k, &mut weights);
    for (i, weight) in weights.into_iter().enumerate() {
        let want = match i {
            244 => 0.5 * -2.0 * (f32::from(0x39u8) - 32.0),
            240..256 => 0.5 * -2.0 * -32.0,
            _ => 0.0,
        };
        assert_eq!(weight, want, "weight {i}");
    }
}
