//! Sixteen weights at a time.
//!
//! A block of four- or five-bit weights has at most 16 or 32 different values, so they are
//! computed once and then looked up by a permutation, which takes the place of conversion,
//! multiplication and addition per weight.

use std::arch::x86_64::*;

use super::reference;
use crate::weight_format::WeightFormat;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(crate) fn unpack(format: WeightFormat, bytes: &[u8], out: &mut [f32]) {
    match format {
        WeightFormat::F32 => reference::unpack(format, bytes, out),
        WeightFormat::F16 => f16_weights(bytes, out),
        WeightFormat::Bf16 => bf16_weights(bytes, out),
        WeightFormat::Q4_0 => q4_0(bytes, out),
        WeightFormat::Q4_1 => q4_1(bytes, out),
        WeightFormat::Q5_0 => q5_0(bytes, out),
        WeightFormat::Q5_1 => q5_1(bytes, out),
        WeightFormat::Q8_0 => q8_0(bytes, out),
        WeightFormat::Q4K => q4_k(bytes, out),
        WeightFormat::Q6K => q6_k(bytes, out),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn f16_weights(bytes: &[u8], out: &mut [f32]) {
    let (chunks, rest) = bytes.as_chunks::<32>();
    let (outs, out_rest) = out.as_chunks_mut::<16>();
    for (chunk, out) in chunks.iter().zip(outs) {
        store(_mm512_cvtph_ps(load_32(chunk)), out);
    }
    if !rest.is_empty() {
        reference::unpack(WeightFormat::F16, rest, out_rest);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn bf16_weights(bytes: &[u8], out: &mut [f32]) {
    let (chunks, rest) = bytes.as_chunks::<32>();
    let (outs, out_rest) = out.as_chunks_mut::<16>();
    for (chunk, out) in chunks.iter().zip(outs) {
        let high = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(load_32(chunk)));
        store(_mm512_castsi512_ps(high), out);
    }
    if !rest.is_empty() {
        reference::unpack(WeightFormat::Bf16, rest, out_rest);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q4_0(bytes: &[u8], out: &mut [f32]) {
    let centred = _mm512_sub_ps(zero_to_fifteen(), _mm512_set1_ps(8.0));
    for (block, out) in bytes.as_chunks::<18>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let [scale, _] = two_f16([block[0], block[1], 0, 0]);
        look_up_pairs(_mm512_mul_ps(scale, centred), last_16(block), out);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q4_1(bytes: &[u8], out: &mut [f32]) {
    let steps = zero_to_fifteen();
    for (block, out) in bytes.as_chunks::<20>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let [scale, least] = two_f16([block[0], block[1], block[2], block[3]]);
        look_up_pairs(_mm512_add_ps(_mm512_mul_ps(scale, steps), least), last_16(block), out);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q5_0(bytes: &[u8], out: &mut [f32]) {
    let low = _mm512_sub_ps(zero_to_fifteen(), _mm512_set1_ps(16.0));
    let high = zero_to_fifteen();
    for (block, out) in bytes.as_chunks::<22>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let [scale, _] = two_f16([block[0], block[1], 0, 0]);
        let tables = [_mm512_mul_ps(scale, low), _mm512_mul_ps(scale, high)];
        let fifth = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
        look_up_five_bits(tables, fifth, last_16(block), out);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q5_1(bytes: &[u8], out: &mut [f32]) {
    let low = zero_to_fifteen();
    let high = _mm512_add_ps(zero_to_fifteen(), _mm512_set1_ps(16.0));
    for (block, out) in bytes.as_chunks::<24>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let [scale, least] = two_f16([block[0], block[1], block[2], block[3]]);
        let tables = [
            _mm512_add_ps(_mm512_mul_ps(scale, low), least),
            _mm512_add_ps(_mm512_mul_ps(scale, high), least),
        ];
        let fifth = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
        look_up_five_bits(tables, fifth, last_16(block), out);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q8_0(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<34>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let [scale, _] = two_f16([block[0], block[1], 0, 0]);
        let quants = block[2..].as_chunks::<16>().0;
        for (quants, out) in quants.iter().zip(out.as_chunks_mut::<16>().0) {
            let quants = _mm512_cvtepi8_epi32(load_16(quants));
            store(_mm512_mul_ps(scale, _mm512_cvtepi32_ps(quants)), out);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q4_k(bytes: &[u8], out: &mut [f32]) {
    let steps = zero_to_fifteen();
    for (block, out) in bytes.as_chunks::<144>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let [scale, least] = two_f16([block[0], block[1], block[2], block[3]]);
        let (packed, pairs) = block[4..].split_at(12);
        let runs = pairs.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<64>().0);
        for (run, (pairs, out)) in runs.enumerate() {
            let mut tables = [_mm512_setzero_ps(); 2];
            for (half, table) in tables.iter_mut().enumerate() {
                let (sub_scale, sub_least) =
                    reference::q4_k_scale_and_least(packed, 2 * run + half);
                let scale = _mm512_mul_ps(scale, _mm512_set1_ps(f32::from(sub_scale)));
                let least = _mm512_mul_ps(least, _mm512_set1_ps(f32::from(sub_least)));
                *table = _mm512_sub_ps(_mm512_mul_ps(scale, steps), least);
            }
            let outs = out.as_chunks_mut::<16>().0;
            for (i, pairs) in pairs.as_chunks::<16>().0.iter().enumerate() {
                let pairs = _mm512_cvtepu8_epi32(load_16(pairs));
                store(_mm512_permutexvar_ps(pairs, tables[0]), &mut outs[i]);
                let pairs = _mm512_srli_epi32::<4>(pairs);
                store(_mm512_permutexvar_ps(pairs, tables[1]), &mut outs[i + 2]);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn q6_k(bytes: &[u8], out: &mut [f32]) {
    let low_bits = _mm512_set1_epi32(15);
    let high_bits = _mm512_set1_epi32(3 << 4);
    for (block, out) in bytes.as_chunks::<210>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let [scale, _] = two_f16([block[208], block[209], 0, 0]);
        let low = block[..128].as_chunks::<16>().0;
        let high = block[128..192].as_chunks::<16>().0;
        for (i, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            // Sixteen weights: half of the block, run of 32 in it, first or second part of that.
            let (half, run, part) = (i / 8, i / 2 % 4, i % 2);
            let low = _mm512_cvtepu8_epi32(load_16(&low[half * 4 + run % 2 * 2 + part]));
            let low = if run < 2 { low } else { _mm512_srli_epi32::<4>(low) };
            let high = _mm512_cvtepu8_epi32(load_16(&high[half * 2 + part]));
            let high = match run {
                0 => _mm512_slli_epi32::<4>(high),
                1 => _mm512_slli_epi32::<2>(high),
                2 => high,
                _ => _mm512_srli_epi32::<2>(high),
            };
            let quants =
                _mm512_or_si512(_mm512_and_si512(low, low_bits), _mm512_and_si512(high, high_bits));
            let centred = _mm512_cvtepi32_ps(_mm512_sub_epi32(quants, _mm512_set1_epi32(32)));
            let sub_scale = f32::from(block[192 + i] as i8);
            let scale = _mm512_mul_ps(scale, _mm512_set1_ps(sub_scale));
            store(_mm512_mul_ps(scale, centred), out);
        }
    }
}

/// Low halves of the bytes give the first sixteen weights, high halves the others.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn look_up_pairs(table: __m512, pairs: &[u8; 16], out: &mut [f32; 32]) {
    let (low_out, high_out) = halves(out);
    // The permutation reads the four lowest bits of an index only.
    let pairs = _mm512_cvtepu8_epi32(load_16(pairs));
    store(_mm512_permutexvar_ps(pairs, table), low_out);
    store(_mm512_permutexvar_ps(_mm512_srli_epi32::<4>(pairs), table), high_out);
}

/// As [`look_up_pairs`], with the fifth bits choosing between two tables.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn look_up_five_bits(tables: [__m512; 2], fifth: u32, pairs: &[u8; 16], out: &mut [f32; 32]) {
    let (low_out, high_out) = halves(out);
    let pairs = _mm512_cvtepu8_epi32(load_16(pairs));
    for (pairs, fifth, out) in [
        (pairs, fifth as u16, low_out),
        (_mm512_srli_epi32::<4>(pairs), (fifth >> 16) as u16, high_out),
    ] {
        let [without, with] = tables;
        let chosen = _mm512_permutexvar_ps(pairs, without);
        store(_mm512_mask_permutexvar_ps(chosen, fifth, pairs, with), out);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn zero_to_fifteen() -> __m512 {
    let steps: [f32; 16] = std::array::from_fn(|i| i as f32);
    // SAFETY: the array holds sixteen numbers.
    unsafe { _mm512_loadu_ps(steps.as_ptr()) }
}

/// Two little-endian f16, each in all lanes.
#[inline]
#[target_feature(enable = "avx512f,f16c")]
fn two_f16(bytes: [u8; 4]) -> [__m512; 2] {
    let both = _mm_cvtph_ps(_mm_cvtsi32_si128(i32::from_le_bytes(bytes)));
    [_mm512_broadcastss_ps(both), _mm512_broadcastss_ps(_mm_movehdup_ps(both))]
}

fn halves(out: &mut [f32; 32]) -> (&mut [f32; 16], &mut [f32; 16]) {
    let (low, high) = out.split_at_mut(16);
    (low.try_into().expect("16 of 32"), high.try_into().expect("16 of 32"))
}

fn last_16<const BYTES: usize>(block: &[u8; BYTES]) -> &[u8; 16] {
    block.last_chunk().expect("every block has 16 bytes of pairs")
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_16(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: sixteen bytes are borrowed.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_32(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: thirty-two bytes are borrowed.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(x: __m512, out: &mut [f32; 16]) {
    // SAFETY: sixteen numbers are borrowed.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), x) }
}
