//! Eight weights at a time: bytes to integers to f32, then scale and offset as in the reference.

use std::arch::x86_64::*;

use super::block_32::Block32;
use super::{array, last_16, reference, super_block};
use crate::linear::weight_format::WeightFormat;

/// The weights of one block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn unpack_32<F: Block32>(block: &[u8]) -> [__m256; 4] {
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

/// All blocks of a format without blocks of 32.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn unpack_others(format: WeightFormat, bytes: &[u8], out: &mut [f32]) {
    if !super_block::unpack(format, bytes, out) {
        reference::unpack(format, bytes, out);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn q4_0(block: &[u8; 18]) -> [__m256; 4] {
    let [scale, _] = two_f16([block[0], block[1], 0, 0]);
    scaled(four_bits(last_16(block)), scale, _mm256_set1_epi32(8))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn q4_1(block: &[u8; 20]) -> [__m256; 4] {
    let [scale, least] = two_f16([block[0], block[1], block[2], block[3]]);
    shifted(scaled(four_bits(last_16(block)), scale, _mm256_setzero_si256()), least)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn q5_0(block: &[u8; 22]) -> [__m256; 4] {
    let [scale, _] = two_f16([block[0], block[1], 0, 0]);
    let fifth = [block[2], block[3], block[4], block[5]];
    scaled(five_bits(last_16(block), fifth), scale, _mm256_set1_epi32(16))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn q5_1(block: &[u8; 24]) -> [__m256; 4] {
    let [scale, least] = two_f16([block[0], block[1], block[2], block[3]]);
    let fifth = [block[4], block[5], block[6], block[7]];
    shifted(scaled(five_bits(last_16(block), fifth), scale, _mm256_setzero_si256()), least)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn q8_0(block: &[u8; 34]) -> [__m256; 4] {
    let [scale, _] = two_f16([block[0], block[1], 0, 0]);
    let mut quants = [_mm256_setzero_si256(); 4];
    for (quants, bytes) in quants.iter_mut().zip(block[2..].as_chunks().0) {
        *quants = _mm256_cvtepi8_epi32(load_8(bytes));
    }
    scaled(quants, scale, _mm256_setzero_si256())
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn iq4_nl(block: &[u8; 18]) -> [__m256; 4] {
    let [scale, _] = two_f16([block[0], block[1], 0, 0]);
    let numbers = load_16(&reference::IQ4_NL_NUMBERS.map(|number| number as u8));
    let pairs = load_16(last_16(block));
    let low = _mm_set1_epi8(15);
    let first = _mm_shuffle_epi8(numbers, _mm_and_si128(pairs, low));
    let second = _mm_shuffle_epi8(numbers, _mm_and_si128(_mm_srli_epi16::<4>(pairs), low));
    let quants = [first, _mm_srli_si128::<8>(first), second, _mm_srli_si128::<8>(second)];
    scaled(quants.map(|bytes| _mm256_cvtepi8_epi32(bytes)), scale, _mm256_setzero_si256())
}

/// Low halves of the bytes give the first sixteen weights, high halves the others.
#[inline]
#[target_feature(enable = "avx2")]
fn four_bits(pairs: &[u8; 16]) -> [__m256i; 4] {
    let (first, second) = pairs.split_at(8);
    let first = _mm256_cvtepu8_epi32(load_8(array(first)));
    let second = _mm256_cvtepu8_epi32(load_8(array(second)));
    let low = _mm256_set1_epi32(15);
    [
        _mm256_and_si256(first, low),
        _mm256_and_si256(second, low),
        _mm256_srli_epi32::<4>(first),
        _mm256_srli_epi32::<4>(second),
    ]
}

/// As [`four_bits`], with bit `i` of `fifth` as the highest bit of weight `i`.
#[inline]
#[target_feature(enable = "avx2")]
fn five_bits(pairs: &[u8; 16], fifth: [u8; 4]) -> [__m256i; 4] {
    let mut quants = four_bits(pairs);
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (quants, bits) in quants.iter_mut().zip(fifth) {
        let bits = _mm256_srlv_epi32(_mm256_set1_epi32(i32::from(bits)), lanes);
        let bits = _mm256_and_si256(bits, _mm256_set1_epi32(1));
        *quants = _mm256_or_si256(*quants, _mm256_slli_epi32::<4>(bits));
    }
    quants
}

/// `scale * (quants - centre)`
#[inline]
#[target_feature(enable = "avx2")]
fn scaled(quants: [__m256i; 4], scale: __m256, centre: __m256i) -> [__m256; 4] {
    let mut weights = [_mm256_setzero_ps(); 4];
    for (weights, quants) in weights.iter_mut().zip(quants) {
        let centred = _mm256_cvtepi32_ps(_mm256_sub_epi32(quants, centre));
        *weights = _mm256_mul_ps(scale, centred);
    }
    weights
}

#[inline]
#[target_feature(enable = "avx2")]
fn shifted(mut weights: [__m256; 4], least: __m256) -> [__m256; 4] {
    for weights in &mut weights {
        *weights = _mm256_add_ps(*weights, least);
    }
    weights
}

/// Two little-endian f16, each in all lanes.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn two_f16(bytes: [u8; 4]) -> [__m256; 2] {
    let both = _mm_cvtph_ps(_mm_cvtsi32_si128(i32::from_le_bytes(bytes)));
    [_mm256_broadcastss_ps(both), _mm256_broadcastss_ps(_mm_movehdup_ps(both))]
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_8(bytes: &[u8; 8]) -> __m128i {
    // SAFETY: eight bytes are borrowed.
    unsafe { _mm_loadl_epi64(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_16(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: sixteen bytes are borrowed.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
