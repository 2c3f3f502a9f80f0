//! Sixteen lanes: AVX-512 with the extensions every server core since Skylake has.

use std::arch::x86_64::*;

use half::f16;

use super::instructions::{instructions, run_with};
use super::{Kernel, Lanes, put_f16};
use crate::linear::unpack::{self, block_32::Block32};
use crate::linear::weight_format::WeightFormat;

/// Exists only where [`Avx512::detect`] found the instructions.
#[derive(Clone, Copy)]
pub(crate) struct Avx512 {
    _proof: (),
}

impl Avx512 {
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        found.then_some(Avx512 { _proof: () })
    }

    run_with!(
        Avx512,
        "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
        fn run(kernel: Kernel) -> ()
    );
}

impl Lanes for Avx512 {
    const COUNT: usize = 16;
    // 6 x 4 sums, six inputs and one vector of weights fill 31 of 32 registers.
    const TILE_ROWS: usize = 6;

    type Vector = __m512;
    type Weights32 = [__m512; 2];

    instructions! {
        fn splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        fn add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        fn sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        fn mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        fn div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        fn min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        fn max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        fn times_power_of_two(x: __m512, power: __m512) -> __m512 = _mm512_scalef_ps(x, power);
        fn unless_less(x: __m512, a: __m512, b: __m512) -> __m512 =
            _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(a, b), x);
        fn rough_inverse(x: __m512) -> __m512 = _mm512_rcp14_ps(x);
        fn round(x: __m512) -> __m512 =
            _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
        fn largest(x: __m512) -> f32 = _mm512_reduce_max_ps(x);
        fn unpack_others(format: WeightFormat, bytes: &[u8], out: &mut [f32]) =
            // Blocks of 256 do not gain from wider vectors.
            unpack::avx2::unpack_others(format, bytes, out);
        fn prefetch(address: *const u8) = _mm_prefetch::<_MM_HINT_T0>(address.cast());
        fn prefetch_to_write(address: *const u8) = _mm_prefetch::<_MM_HINT_ET0>(address.cast());
        fn write_f16(x: __m512, to: &mut [f16]) = {
            let narrow = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
            // Any two bytes are an f16.
            put_f16(std::mem::transmute::<__m256i, [f16; 16]>(narrow), to);
        };
    }

    instructions! {
        unsafe fn load(from: *const f32) -> __m512 = _mm512_loadu_ps(from);
        // Lanes outside the mask are not read.
        unsafe fn load_part(from: *const f32, count: usize) -> __m512 =
            _mm512_maskz_loadu_ps(first(count), from);
        unsafe fn store(x: __m512, to: *mut f32) = _mm512_storeu_ps(to, x);
        // Lanes outside the mask are not written.
        unsafe fn store_part(x: __m512, to: *mut f32, count: usize) =
            _mm512_mask_storeu_ps(to, first(count), x);
        unsafe fn load_f16(from: *const u8) -> __m512 =
            _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()));
        unsafe fn load_bf16(from: *const u8) -> __m512 = {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        };
    }

    #[inline(always)]
    fn sums(self, [a, b, c, d]: [__m512; 4]) -> [f32; 4] {
        // SAFETY: `self` proves that the instructions were detected; an array of four f32 is as
        // large as a vector of four.
        unsafe {
            // Each quarter: [a0 + a2, b0 + b2, a1 + a3, b1 + b3], and the same of c and d.
            let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            let low = _mm512_shuffle_ps::<0b01_00_01_00>(ab, cd);
            let high = _mm512_shuffle_ps::<0b11_10_11_10>(ab, cd);
            let quarters = _mm512_add_ps(low, high);
            let halves = _mm256_add_ps(
                _mm512_castps512_ps256(quarters),
                _mm512_extractf32x8_ps::<1>(quarters),
            );
            let whole =
                _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps::<1>(halves));
            std::mem::transmute::<__m128, [f32; 4]>(whole)
        }
    }

    #[inline(always)]
    fn unpack_32<F: Block32>(self, block: &[u8]) -> [__m512; 2] {
        // SAFETY: `self` proves that the instructions were detected.
        unsafe { unpack::avx512::unpack_32::<F>(block) }
    }
}

/// Mask of the first `count <= 16` lanes.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}
