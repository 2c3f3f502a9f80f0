//! Panels with AVX2: half a panel at a time.

use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::instructions::{instructions, run_with};
use super::panel_lanes::{NAN_BF16, PanelKernel, PanelLanes, ROUND_BF16};

impl Avx2 {
    run_with!(Avx2, "avx2,fma,f16c", fn run_panels(kernel: PanelKernel) -> K::Output);
}

impl PanelLanes for Avx2 {
    type Floats = Avx2;
    type Ints = __m256i;

    #[inline(always)]
    fn floats(self) -> Avx2 {
        self
    }

    instructions! {
        fn splat_ints(x: i32) -> __m256i = _mm256_set1_epi32(x);
        fn add_ints(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
        fn and(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        fn or(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        fn shift_right(x: __m256i, by: u32) -> __m256i =
            _mm256_srlv_epi32(x, _mm256_set1_epi32(by as i32));
        fn shift_left(x: __m256i, by: u32) -> __m256i =
            _mm256_sllv_epi32(x, _mm256_set1_epi32(by as i32));
        fn to_floats(x: __m256i) -> __m256 = _mm256_cvtepi32_ps(x);
        fn dot_int16(a: __m256i, b: __m256i, sum: __m256i) -> __m256i =
            _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
        fn dot_bf16(a: __m256i, b: __m256i, sum: __m256) -> __m256 = {
            let high = _mm256_set1_epi32(0xffff_0000_u32 as i32);
            let low = |x| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(x));
            let high = |x| _mm256_castsi256_ps(_mm256_and_si256(x, high));
            _mm256_fmadd_ps(high(a), high(b), _mm256_fmadd_ps(low(a), low(b), sum))
        };
        fn join_bf16(low: __m256, high: __m256) -> __m256i =
            _mm256_or_si256(round(low), _mm256_slli_epi32::<16>(round(high)));
        fn narrow_bf16(first: __m256, second: __m256) -> __m256i =
            in_order(_mm256_packus_epi32(round(first), round(second)));
        fn narrow_int16(first: __m256, second: __m256) -> __m256i =
            in_order(_mm256_packs_epi32(_mm256_cvtps_epi32(first), _mm256_cvtps_epi32(second)));
    }

    instructions! {
        unsafe fn load_ints(from: *const u8) -> __m256i = _mm256_loadu_si256(from.cast());
        unsafe fn store_ints(x: __m256i, to: *mut u8) = _mm256_storeu_si256(to.cast(), x);
        unsafe fn load_bytes(from: *const u8) -> __m256 =
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast())));
    }
}

/// Of an instruction that takes turns between the halves of its two arguments.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(packed: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(packed)
}

/// The bits of bf16 in the lower half of each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn round(x: __m256) -> __m256i {
    let bits = _mm256_castps_si256(x);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let up = _mm256_add_epi32(odd, _mm256_set1_epi32(ROUND_BF16));
    let rounded = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, up));
    let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
    _mm256_blendv_epi8(rounded, _mm256_set1_epi32(NAN_BF16), nan)
}
