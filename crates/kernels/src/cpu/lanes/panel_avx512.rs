//! Panels with AVX-512, with and without the instructions for small integers and bf16.

use std::arch::asm;
use std::arch::x86_64::*;

use super::avx512::Avx512;
use super::panel_lanes::{NAN_BF16, PanelKernel, PanelLanes, ROUND_BF16};
use crate::tiles::INT8_ORDER;

/// AVX-512 with VNNI and BF16; exists only where [`Vnni::detect`] found them.
#[derive(Clone, Copy)]
pub(crate) struct Vnni {
    lanes: Avx512,
}

impl Vnni {
    pub(crate) fn detect() -> Option<Self> {
        let found =
            is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512bf16");
        Avx512::detect().filter(|_| found).map(|lanes| Vnni { lanes })
    }

    pub(crate) fn lanes(self) -> Avx512 {
        self.lanes
    }

    #[inline]
    pub(crate) fn run_panels<K: PanelKernel>(self, kernel: K) -> K::Output {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,avx512vnni,avx512bf16"
        )]
        fn run<K: PanelKernel>(lanes: Vnni, kernel: K) -> K::Output {
            kernel.simd(lanes)
        }
        // SAFETY: `self` proves that the instructions were detected.
        unsafe { run(self, kernel) }
    }
}

impl Avx512 {
    #[inline]
    pub(crate) fn run_panels<K: PanelKernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        fn run<K: PanelKernel>(lanes: Avx512, kernel: K) -> K::Output {
            kernel.simd(lanes)
        }
        // SAFETY: `self` proves that the instructions were detected.
        unsafe { run(self, kernel) }
    }
}

/// What both have in common.
macro_rules! common {
    () => {
        type Floats = Avx512;
        type Ints = __m512i;

        #[inline(always)]
        fn splat_ints(self, x: i32) -> __m512i {
            // SAFETY: `self` proves that the instructions were detected.
            unsafe { _mm512_set1_epi32(x) }
        }

        #[inline(always)]
        fn add_ints(self, a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: as above.
            unsafe { _mm512_add_epi32(a, b) }
        }

        #[inline(always)]
        fn and(self, a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: as above.
            unsafe { _mm512_and_si512(a, b) }
        }

        #[inline(always)]
        fn or(self, a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: as above.
            unsafe { _mm512_or_si512(a, b) }
        }

        #[inline(always)]
        fn shift_right(self, x: __m512i, by: u32) -> __m512i {
            // SAFETY: as above.
            unsafe { _mm512_srlv_epi32(x, _mm512_set1_epi32(by as i32)) }
        }

        #[inline(always)]
        fn shift_left(self, x: __m512i, by: u32) -> __m512i {
            // SAFETY: as above.
            unsafe { _mm512_sllv_epi32(x, _mm512_set1_epi32(by as i32)) }
        }

        #[inline(always)]
        fn to_floats(self, x: __m512i) -> __m512 {
            // SAFETY: as above.
            unsafe { _mm512_cvtepi32_ps(x) }
        }

        #[inline(always)]
        fn small_floats(self, x: __m512i, offset: u8) -> __m512 {
            // SAFETY: as above.
            unsafe { look_up(x, offset) }
        }

        #[inline(always)]
        fn narrow_int16(self, first: __m512, second: __m512) -> __m512i {
            // SAFETY: as above.
            unsafe {
                let first = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(first));
                let second = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(second));
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second)
            }
        }

        #[inline(always)]
        fn transpose(self, square: &mut [[f32; 16]; 16]) {
            // SAFETY: as above.
            unsafe { transpose(square) }
        }

        #[inline(always)]
        fn dot_int16(self, a: __m512i, b: __m512i, sum: __m512i) -> __m512i {
            // SAFETY: as above.
            unsafe { _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)) }
        }

        #[inline(always)]
        unsafe fn load_ints(self, from: *const u8) -> __m512i {
            // SAFETY: the caller's contract.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store_ints(self, x: __m512i, to: *mut u8) {
            // SAFETY: the caller's contract.
            unsafe { _mm512_storeu_si512(to.cast(), x) }
        }

        #[inline(always)]
        unsafe fn load_bytes(self, from: *const u8) -> __m512 {
            // SAFETY: the caller's contract.
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) }
        }
    };
}

impl PanelLanes for Avx512 {
    common!();

    #[inline(always)]
    fn floats(self) -> Avx512 {
        self
    }

    #[inline(always)]
    fn dot_bf16(self, a: __m512i, b: __m512i, sum: __m512) -> __m512 {
        // SAFETY: `self` proves that the instructions were detected.
        unsafe {
            let high = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            let low = |x| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(x));
            let high = |x| _mm512_castsi512_ps(_mm512_and_si512(x, high));
            _mm512_fmadd_ps(high(a), high(b), _mm512_fmadd_ps(low(a), low(b), sum))
        }
    }

    #[inline(always)]
    fn join_bf16(self, low: __m512, high: __m512) -> __m512i {
        // SAFETY: `self` proves that the instructions were detected.
        unsafe { _mm512_or_si512(round(low), _mm512_slli_epi32::<16>(round(high))) }
    }

    #[inline(always)]
    fn narrow_bf16(self, first: __m512, second: __m512) -> __m512i {
        // SAFETY: `self` proves that the instructions were detected.
        unsafe {
            let [first, second] = [first, second].map(|x| _mm512_cvtepi32_epi16(round(x)));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second)
        }
    }
}

impl PanelLanes for Vnni {
    common!();

    #[inline(always)]
    fn floats(self) -> Avx512 {
        self.lanes
    }

    #[inline(always)]
    fn store_int16_bytes(self, x: __m512, upper: &mut [i8; 16], lower: &mut [i8; 16]) {
        // SAFETY: `self` proves that the instructions were detected; sixteen bytes are borrowed.
        unsafe {
            let words = _mm512_cvtps_epi32(x);
            let uppers = _mm512_srai_epi32::<8>(_mm512_add_epi32(words, _mm512_set1_epi32(128)));
            _mm_storeu_si128(upper.as_mut_ptr().cast(), ordered_bytes(uppers));
            _mm_storeu_si128(lower.as_mut_ptr().cast(), ordered_bytes(words));
        }
    }

    #[inline(always)]
    fn dot_int8(self, a: __m512i, b: __m512i, sum: __m512i) -> __m512i {
        // SAFETY: `self` proves that the instructions were detected.
        unsafe { add_int8_products(a, b, sum) }
    }

    #[inline(always)]
    fn dot_bf16(self, a: __m512i, b: __m512i, sum: __m512) -> __m512 {
        // SAFETY: `self` proves that the instructions were detected; the two types are the same
        // bits.
        unsafe {
            let pairs = |x| std::mem::transmute::<__m512i, __m512bh>(x);
            _mm512_dpbf16_ps(sum, pairs(a), pairs(b))
        }
    }

    #[inline(always)]
    fn join_bf16(self, low: __m512, high: __m512) -> __m512i {
        // SAFETY: `self` proves that the instructions were detected.
        unsafe { _mm512_permutexvar_epi16(interleave(), self.narrow_bf16(low, high)) }
    }

    #[inline(always)]
    fn narrow_bf16(self, first: __m512, second: __m512) -> __m512i {
        // SAFETY: `self` proves that the instructions were detected; the two types are the same
        // bits.
        unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first)) }
    }
}

/// One instruction. The compiler would make two of the intrinsic, for a shorter chain of sums,
/// where we are bound by the number of instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_int8_products(a: __m512i, b: __m512i, mut sum: __m512i) -> __m512i {
    // SAFETY: it reads and writes these three registers alone.
    unsafe {
        asm!(
            "vpdpbusd {sum}, {a}, {b}",
            sum = inout(zmm_reg) sum,
            a = in(zmm_reg) a,
            b = in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// The lowest bytes, in the order of the weights'.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,ssse3")]
fn ordered_bytes(x: __m512i) -> __m128i {
    let order = std::array::from_fn(|i| (i / 8 * 8 + INT8_ORDER[i % 8]) as i8);
    // SAFETY: the two are the same sixteen bytes.
    let order = unsafe { std::mem::transmute::<[i8; 16], __m128i>(order) };
    _mm_shuffle_epi8(_mm512_cvtepi32_epi8(x), order)
}

/// One instruction, which takes no notice of the bits above.
#[inline]
#[target_feature(enable = "avx512f")]
fn look_up(x: __m512i, offset: u8) -> __m512 {
    let numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let numbers = _mm512_sub_epi32(numbers, _mm512_set1_epi32(i32::from(offset)));
    _mm512_permutexvar_ps(x, _mm512_cvtepi32_ps(numbers))
}

/// Four rounds of turning squares, of 1, 2, 4 and 8 numbers to a side, with their neighbours.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(square: &mut [[f32; 16]; 16]) {
    let mut rows = [_mm512_setzero_si512(); 16];
    for (row, numbers) in rows.iter_mut().zip(&*square) {
        // SAFETY: sixteen numbers are borrowed.
        *row = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
    }
    // Inside a quarter of a vector: the 4 x 4 squares of each four rows.
    for four in rows.as_chunks_mut::<4>().0 {
        let [a, b, c, d] = *four;
        let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (low_2, high_2) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        *four = [
            _mm512_unpacklo_epi64(low, low_2),
            _mm512_unpackhi_epi64(low, low_2),
            _mm512_unpacklo_epi64(high, high_2),
            _mm512_unpackhi_epi64(high, high_2),
        ];
    }
    // Between quarters: the 4 x 4 squares themselves.
    for i in 0..4 {
        let [a, b, c, d] = [rows[i], rows[i + 4], rows[i + 8], rows[i + 12]];
        let (even, odd) = (
            _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b),
            _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b),
        );
        let (even_2, odd_2) = (
            _mm512_shuffle_i32x4::<0b10_00_10_00>(c, d),
            _mm512_shuffle_i32x4::<0b11_01_11_01>(c, d),
        );
        rows[i] = _mm512_shuffle_i32x4::<0b10_00_10_00>(even, even_2);
        rows[i + 4] = _mm512_shuffle_i32x4::<0b10_00_10_00>(odd, odd_2);
        rows[i + 8] = _mm512_shuffle_i32x4::<0b11_01_11_01>(even, even_2);
        rows[i + 12] = _mm512_shuffle_i32x4::<0b11_01_11_01>(odd, odd_2);
    }
    for (row, numbers) in rows.iter().zip(square) {
        // SAFETY: sixteen numbers are borrowed.
        unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), *row) };
    }
}

/// Words 0, 16, 1, 17 and so on.
#[inline]
#[target_feature(enable = "avx512f")]
fn interleave() -> __m512i {
    let low = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm512_or_si512(low, _mm512_slli_epi32::<16>(_mm512_add_epi32(low, _mm512_set1_epi32(16))))
}

/// The bits of bf16 in the lower half of each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn round(x: __m512) -> __m512i {
    let bits = _mm512_castps_si512(x);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let up = _mm512_add_epi32(odd, _mm512_set1_epi32(ROUND_BF16));
    let rounded = _mm512_srli_epi32::<16>(_mm512_add_epi32(bits, up));
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(NAN_BF16))
}
