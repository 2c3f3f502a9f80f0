//! Panels with AVX2: half a panel at a time.

use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::panel_lanes::{NAN_BF16, PanelKernel, PanelLanes, ROUND_BF16};

impl Avx2 {
    #[inline]
    pub(crate) fn run_panels<K: PanelKernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn run<K: PanelKernel>(lanes: Avx2, kernel: K) -> K::Output {
            kernel.simd(lanes)
        }
        // SAFETY: `self` proves that the instructions were detected.
        unsafe { run(self, kernel) }
    }
}

impl PanelLanes for Avx2 {
    type Floats = Avx2;
    type Ints = __m256i;

    #[inline(always)]
    fn floats(self) -> Avx2 {
        self
    }

    #[inline(always)]
    fn splat_ints(self, x: i32) -> __m256i {
        // SAFETY: `self` proves that the instructions were detected, here and below.
        unsafe { _mm256_set1_epi32(x) }
    }

    #[inline(always)]
    fn add_ints(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn shift_right(self, x: __m256i, by: u32) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_srlv_epi32(x, _mm256_set1_epi32(by as i32)) }
    }

    #[inline(always)]
    fn shift_left(self, x: __m256i, by: u32) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_sllv_epi32(x, _mm256_set1_epi32(by as i32)) }
    }

    #[inline(always)]
    fn to_floats(self, x: __m256i) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_cvtepi32_ps(x) }
    }

    #[inline(always)]
    fn dot_int16(self, a: __m256i, b: __m256i, sum: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)) }
    }

    #[inline(always)]
    fn dot_bf16(self, a: __m256i, b: __m256i, sum: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe {
            let high = _mm256_set1_epi32(0xffff_0000_u32 as i32);
            let low = |x| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(x));
            let high = |x| _mm256_castsi256_ps(_mm256_and_si256(x, high));
            _mm256_fmadd_ps(high(a), high(b), _mm256_fmadd_ps(low(a), low(b), sum))
        }
    }

    #[inline(always)]
    fn join_bf16(self, low: __m256, high: __m256) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_or_si256(round(low), _mm256_slli_epi32::<16>(round(high))) }
    }

    #[inline(always)]
    fn narrow_bf16(self, first: __m256, second: __m256) -> __m256i {
        // SAFETY: as above.
        unsafe {
            // The instruction takes turns between the two in each half.
            let mixed = _mm256_packus_epi32(round(first), round(second));
            _mm256_permute4x64_epi64::<0b11_01_10_00>(mixed)
        }
    }

    #[inline(always)]
    fn narrow_int16(self, first: __m256, second: __m256) -> __m256i {
        // SAFETY: as above.
        unsafe {
            // Packs the halves of both in turn.
            let rerotated =
                _mm256_packs_epi32(_mm256_cvtps_epi32(first), _mm256_cvtps_epi32(second));
            _mm256_permute4x64_epi64::<0b11_01_10_00>(rerotated)
        }
    }

    #[inline(always)]
    unsafe fn load_ints(self, from: *const u8) -> __m256i {
        // SAFETY: the caller's contract.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_ints(self, x: __m256i, to: *mut u8) {
        // SAFETY: the caller's contract.
        unsafe { _mm256_storeu_si256(to.cast(), x) }
    }

    #[inline(always)]
    unsafe fn load_bytes(self, from: *const u8) -> __m256 {
        // SAFETY: the caller's contract.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()))) }
    }
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
