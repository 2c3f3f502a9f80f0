//! Eight weights at a time: bytes to integers to f32, then scale and offset as in the reference.

use std::arch::x86_64::*;

use super::reference;
use crate::weight_format::WeightFormat;

#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn unpack(format: WeightFormat, bytes: &[u8], out: &mut [f32]) {
    match format {
        WeightFormat::F32 | WeightFormat::Q5_0 | WeightFormat::Q5_1 => {
            reference::unpack(format, bytes, out);
        }
        WeightFormat::F16 => f16_weights(bytes, out),
        WeightFormat::Bf16 => bf16_weights(bytes, out),
        WeightFormat::Q4_0 => q4_0(bytes, out),
        WeightFormat::Q4_1 => q4_1(bytes, out),
        WeightFormat::Q8_0 => q8_0(bytes, out),
        WeightFormat::Q4K => q4_k(bytes, out),
        WeightFormat::Q6K => q6_k(bytes, out),
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn f16_weights(bytes: &[u8], out: &mut [f32]) {
    let (chunks, rest) = bytes.as_chunks::<16>();
    let (outs, out_rest) = out.as_chunks_mut::<8>();
    for (chunk, out) in chunks.iter().zip(outs) {
        store(_mm256_cvtph_ps(load_16(chunk)), out);
    }
    if !rest.is_empty() {
        reference::unpack(WeightFormat::F16, rest, out_rest);
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn bf16_weights(bytes: &[u8], out: &mut [f32]) {
    let (chunks, rest) = bytes.as_chunks::<16>();
    let (outs, out_rest) = out.as_chunks_mut::<8>();
    for (chunk, out) in chunks.iter().zip(outs) {
        let high = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load_16(chunk)));
        store(_mm256_castsi256_ps(high), out);
    }
    if !rest.is_empty() {
        reference::unpack(WeightFormat::Bf16, rest, out_rest);
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q4_0(bytes: &[u8], out: &mut [f32]) {
    let eight = _mm256_set1_ps(8.0);
    for (block, out) in bytes.as_chunks::<18>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let [scale, _] = two_f16([block[0], block[1], 0, 0]);
        let pairs = block[2..].as_chunks::<8>().0;
        let outs = out.as_chunks_mut::<8>().0;
        for (i, pairs) in pairs.iter().enumerate() {
            let [low, high] = four_bits(pairs);
            store(_mm256_mul_ps(scale, _mm256_sub_ps(low, eight)), &mut outs[i]);
            store(_mm256_mul_ps(scale, _mm256_sub_ps(high, eight)), &mut outs[i + 2]);
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q4_1(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<20>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let [scale, least] = two_f16([block[0], block[1], block[2], block[3]]);
        let pairs = block[4..].as_chunks::<8>().0;
        let outs = out.as_chunks_mut::<8>().0;
        for (i, pairs) in pairs.iter().enumerate() {
            let [low, high] = four_bits(pairs);
            store(_mm256_add_ps(_mm256_mul_ps(scale, low), least), &mut outs[i]);
            store(_mm256_add_ps(_mm256_mul_ps(scale, high), least), &mut outs[i + 2]);
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q8_0(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<34>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let [scale, _] = two_f16([block[0], block[1], 0, 0]);
        let quants = block[2..].as_chunks::<8>().0;
        for (quants, out) in quants.iter().zip(out.as_chunks_mut::<8>().0) {
            let quants = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_8(quants)));
            store(_mm256_mul_ps(scale, quants), out);
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q4_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<144>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let [scale, least] = two_f16([block[0], block[1], block[2], block[3]]);
        let (packed, pairs) = block[4..].split_at(12);
        let runs = pairs.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<64>().0);
        for (run, (pairs, out)) in runs.enumerate() {
            let mut affine = [[_mm256_setzero_ps(); 2]; 2];
            for (half, affine) in affine.iter_mut().enumerate() {
                let (sub_scale, sub_least) =
                    reference::q4_k_scale_and_least(packed, 2 * run + half);
                *affine = [
                    _mm256_mul_ps(scale, _mm256_set1_ps(f32::from(sub_scale))),
                    _mm256_mul_ps(least, _mm256_set1_ps(f32::from(sub_least))),
                ];
            }
            let outs = out.as_chunks_mut::<8>().0;
            for (i, pairs) in pairs.as_chunks::<8>().0.iter().enumerate() {
                let four_bits = four_bits(pairs);
                for half in 0..2 {
                    let [scale, least] = affine[half];
                    let weights = _mm256_sub_ps(_mm256_mul_ps(scale, four_bits[half]), least);
                    store(weights, &mut outs[i + 4 * half]);
                }
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q6_k(bytes: &[u8], out: &mut [f32]) {
    let low_bits = _mm256_set1_epi32(15);
    let high_bits = _mm256_set1_epi32(3 << 4);
    for (block, out) in bytes.as_chunks::<210>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let [scale, _] = two_f16([block[208], block[209], 0, 0]);
        let low = block[..128].as_chunks::<8>().0;
        let high = block[128..192].as_chunks::<8>().0;
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // Eight weights: half of the block, run of 32 in it, quarter of that.
            let (half, run, part) = (i / 16, i / 4 % 4, i % 4);
            let low = _mm256_cvtepu8_epi32(load_8(&low[half * 8 + run % 2 * 4 + part]));
            let low = if run < 2 { low } else { _mm256_srli_epi32::<4>(low) };
            let high = _mm256_cvtepu8_epi32(load_8(&high[half * 4 + part]));
            let high = match run {
                0 => _mm256_slli_epi32::<4>(high),
                1 => _mm256_slli_epi32::<2>(high),
                2 => high,
                _ => _mm256_srli_epi32::<2>(high),
            };
            let quants =
                _mm256_or_si256(_mm256_and_si256(low, low_bits), _mm256_and_si256(high, high_bits));
            let centred = _mm256_cvtepi32_ps(_mm256_sub_epi32(quants, _mm256_set1_epi32(32)));
            let sub_scale = f32::from(block[192 + i / 2] as i8);
            let scale = _mm256_mul_ps(scale, _mm256_set1_ps(sub_scale));
            store(_mm256_mul_ps(scale, centred), out);
        }
    }
}

/// The low and the high halves of eight bytes, as f32.
#[inline]
#[target_feature(enable = "avx2")]
fn four_bits(pairs: &[u8; 8]) -> [__m256; 2] {
    let pairs = _mm256_cvtepu8_epi32(load_8(pairs));
    let low = _mm256_and_si256(pairs, _mm256_set1_epi32(15));
    let high = _mm256_srli_epi32::<4>(pairs);
    [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)]
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
fn load_16(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: sixteen bytes are borrowed.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(x: __m256, out: &mut [f32; 8]) {
    // SAFETY: eight numbers are borrowed.
    unsafe { _mm256_storeu_ps(out.as_mut_ptr(), x) }
}
