//! Sixteen weights at a time.
//!
//! A block of four- or five-bit weights has at most 16 or 32 different values, so they are
//! computed once and then looked up by a permutation, which takes the place of conversion,
//! multiplication and addition per weight.

use std::arch::x86_64::*;

use super::avx2::load_16;
use super::block_32::Block32;
use super::{array, last_16, reference};
use crate::linear::weight_format::WeightFormat;

/// The weights of one block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(crate) fn unpack_32<F: Block32>(block: &[u8]) -> [__m512; 2] {
    match F::FORMAT {
        WeightFormat::Q4_0 => q4_0(array(block)),
        WeightFormat::Q4_1 => q4_1(array(block)),
        WeightFormat::Q5_0 => q5_0(array(block)),
        WeightFormat::Q5_1 => q5_1(array(block)),
        WeightFormat::Q8_0 => q8_0(array(block)),
        WeightFormat::Iq4Nl => iq4_nl(array(block)),
        other => unreachable!("{} has no blocks of 32", other.name()),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q4_0(block: &[u8; 18]) -> [__m512; 2] {
    let [scale, _] = two_f16([block[0], block[1], 0, 0]);
    let centred = _mm512_sub_ps(zero_to_fifteen(), _mm512_set1_ps(8.0));
    look_up_pairs(_mm512_mul_ps(scale, centred), last_16(block))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q4_1(block: &[u8; 20]) -> [__m512; 2] {
    let [scale, least] = two_f16([block[0], block[1], block[2], block[3]]);
    let table = _mm512_add_ps(_mm512_mul_ps(scale, zero_to_fifteen()), least);
    look_up_pairs(table, last_16(block))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q5_0(block: &[u8; 22]) -> [__m512; 2] {
    let [scale, _] = two_f16([block[0], block[1], 0, 0]);
    let high = zero_to_fifteen();
    let low = _mm512_sub_ps(high, _mm512_set1_ps(16.0));
    let tables = [_mm512_mul_ps(scale, low), _mm512_mul_ps(scale, high)];
    let fifth = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    look_up_five_bits(tables, fifth, last_16(block))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q5_1(block: &[u8; 24]) -> [__m512; 2] {
    let [scale, least] = two_f16([block[0], block[1], block[2], block[3]]);
    let low = zero_to_fifteen();
    let high = _mm512_add_ps(low, _mm512_set1_ps(16.0));
    let tables = [
        _mm512_add_ps(_mm512_mul_ps(scale, low), least),
        _mm512_add_ps(_mm512_mul_ps(scale, high), least),
    ];
    let fifth = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
    look_up_five_bits(tables, fifth, last_16(block))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q8_0(block: &[u8; 34]) -> [__m512; 2] {
    let [scale, _] = two_f16([block[0], block[1], 0, 0]);
    let low = _mm512_cvtepi8_epi32(load_16(array(&block[2..18])));
    let high = _mm512_cvtepi8_epi32(load_16(last_16(block)));
    [_mm512_mul_ps(scale, _mm512_cvtepi32_ps(low)), _mm512_mul_ps(scale, _mm512_cvtepi32_ps(high))]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn iq4_nl(block: &[u8; 18]) -> [__m512; 2] {
    let [scale, _] = two_f16([block[0], block[1], 0, 0]);
    let numbers = load_16(&reference::IQ4_NL_NUMBERS.map(|number| number as u8));
    let numbers = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(numbers));
    look_up_pairs(_mm512_mul_ps(scale, numbers), last_16(block))
}

/// Low halves of the bytes give the first sixteen weights, high halves the others.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn look_up_pairs(table: __m512, pairs: &[u8; 16]) -> [__m512; 2] {
    // The permutation reads the four lowest bits of an index only.
    let low = _mm512_cvtepu8_epi32(load_16(pairs));
    let high = _mm512_srli_epi32::<4>(low);
    [_mm512_permutexvar_ps(low, table), _mm512_permutexvar_ps(high, table)]
}

/// As [`look_up_pairs`], with the fifth bits choosing between two tables.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn look_up_five_bits(tables: [__m512; 2], fifth: u32, pairs: &[u8; 16]) -> [__m512; 2] {
    let low = _mm512_cvtepu8_epi32(load_16(pairs));
    let high = _mm512_srli_epi32::<4>(low);
    let [without, with] = tables;
    let [low_without, high_without] = look_up_pairs(without, pairs);
    [
        _mm512_mask_permutexvar_ps(low_without, fifth as u16, low, with),
        _mm512_mask_permutexvar_ps(high_without, (fifth >> 16) as u16, high, with),
    ]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn zero_to_fifteen() -> __m512 {
    _mm512_setr_ps(
        0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0,
    )
}

/// Two little-endian f16, each in all lanes.
#[inline]
#[target_feature(enable = "avx512f,f16c")]
fn two_f16(bytes: [u8; 4]) -> [__m512; 2] {
    let both = _mm_cvtph_ps(_mm_cvtsi32_si128(i32::from_le_bytes(bytes)));
    [_mm512_broadcastss_ps(both), _mm512_broadcastss_ps(_mm_movehdup_ps(both))]
}
