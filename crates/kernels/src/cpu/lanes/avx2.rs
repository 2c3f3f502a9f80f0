//! Eight lanes: AVX2 with fused multiplication and f16 conversion (Haswell, Zen and later).

use std::arch::x86_64::*;

use half::f16;

use super::instructions::{instructions, run_with};
use super::{Kernel, Lanes, put_f16};
use crate::linear::unpack::{self, block_32::Block32};
use crate::linear::weight_format::WeightFormat;

/// Exists only where [`Avx2::detect`] found the instructions.
#[derive(Clone, Copy)]
pub(crate) struct Avx2 {
    _proof: (),
}

impl Avx2 {
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        found.then_some(Avx2 { _proof: () })
    }

    run_with!(Avx2, "avx2,fma,f16c", fn run(kernel: Kernel) -> ());
}

impl Lanes for Avx2 {
    const COUNT: usize = 8;
    // 3 x 4 sums, three inputs and one vector of weights fill all 16 registers.
    const TILE_ROWS: usize = 3;

    type Vector = __m256;
    type Weights32 = [__m256; 4];

    instructions! {
        fn splat(x: f32) -> __m256 = _mm256_set1_ps(x);
        fn add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        fn sub(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        fn mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        fn div(a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
        fn min(a: __m256, b: __m256) -> __m256 = _mm256_min_ps(a, b);
        fn max(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        fn unless_less(x: __m256, a: __m256, b: __m256) -> __m256 =
            _mm256_and_ps(x, _mm256_cmp_ps::<_CMP_NLT_UQ>(a, b));
        fn rough_inverse(x: __m256) -> __m256 = _mm256_rcp_ps(x);
        fn round(x: __m256) -> __m256 =
            _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
        fn unpack_others(format: WeightFormat, bytes: &[u8], out: &mut [f32]) =
            unpack::avx2::unpack_others(format, bytes, out);
        fn prefetch(address: *const u8) = _mm_prefetch::<_MM_HINT_T0>(address.cast());
        fn prefetch_to_write(address: *const u8) = _mm_prefetch::<_MM_HINT_ET0>(address.cast());
        fn write_f16(x: __m256, to: &mut [f16]) = {
            let narrow = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
            // Any two bytes are an f16.
            put_f16(std::mem::transmute::<__m128i, [f16; 8]>(narrow), to);
        };
    }

    instructions! {
        unsafe fn load(from: *const f32) -> __m256 = _mm256_loadu_ps(from);
        // Lanes outside the mask are not read.
        unsafe fn load_part(from: *const f32, count: usize) -> __m256 =
            _mm256_maskload_ps(from, first(count));
        unsafe fn store(x: __m256, to: *mut f32) = _mm256_storeu_ps(to, x);
        // Lanes outside the mask are not written.
        unsafe fn store_part(x: __m256, to: *mut f32, count: usize) =
            _mm256_maskstore_ps(to, first(count), x);
        unsafe fn load_f16(from: *const u8) -> __m256 =
            _mm256_cvtph_ps(_mm_loadu_si128(from.cast()));
        unsafe fn load_bf16(from: *const u8) -> __m256 = {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        };
    }

    /// In two halves, because `2^128` itself is out of range.
    #[inline(always)]
    fn times_power_of_two(self, x: __m256, power: __m256) -> __m256 {
        // SAFETY: `self` proves that the instructions were detected.
        unsafe {
            let power = _mm256_cvtps_epi32(power);
            let half = _mm256_srai_epi32::<1>(power);
            let rest = _mm256_sub_epi32(power, half);
            let bias = _mm256_set1_epi32(127);
            let half = _mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias));
            let rest = _mm256_slli_epi32::<23>(_mm256_add_epi32(rest, bias));
            _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(half)), _mm256_castsi256_ps(rest))
        }
    }

    #[inline(always)]
    fn sums(self, [a, b, c, d]: [__m256; 4]) -> [f32; 4] {
        // SAFETY: `self` proves that the instructions were detected; an array of four f32 is as
        // large as a vector of four.
        unsafe {
            // Each half: [a0 + a1, a2 + a3, b0 + b1, b2 + b3], then [a, b, c, d].
            let halves = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
            let whole =
                _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps::<1>(halves));
            std::mem::transmute::<__m128, [f32; 4]>(whole)
        }
    }

    #[inline(always)]
    fn largest(self, x: __m256) -> f32 {
        // SAFETY: `self` proves that the instructions were detected.
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    fn unpack_32<F: Block32>(self, block: &[u8]) -> [__m256; 4] {
        // SAFETY: `self` proves that the instructions were detected.
        unsafe { unpack::avx2::unpack_32::<F>(block) }
    }
}

/// Mask of the first `count <= 8` lanes: a window into eight ones and eight zeros.
#[inline(always)]
fn first(count: usize) -> __m256i {
    const MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    assert!(count <= 8, "{count} of 8 lanes");
    // SAFETY: the window starts at 0 to 8 and so ends inside the sixteen; only an `Avx2` calls
    // this.
    unsafe { _mm256_loadu_si256(MASKS[8 - count..].as_ptr().cast()) }
}
