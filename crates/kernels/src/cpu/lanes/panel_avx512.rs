//! Panels with AVX-512, with and without the instructions for small integers and bf16, and with
//! the former alone.

use std::arch::asm;
use std::arch::x86_64::*;

use super::avx512::Avx512;
use super::instructions::{instructions, run_with};
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

    run_with!(
        Vnni,
        "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,avx512vnni,avx512bf16",
        fn run_panels(kernel: PanelKernel) -> K::Output
    );
}

/// AVX-512 with VNNI, whether or not it has BF16: for kernels whose products are of int16.
#[derive(Clone, Copy)]
pub(crate) struct Int16Vnni {
    lanes: Avx512,
}

impl Int16Vnni {
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512vnni");
        Avx512::detect().filter(|_| found).map(|lanes| Int16Vnni { lanes })
    }

    run_with!(
        Int16Vnni,
        "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,avx512vnni",
        fn run_panels(kernel: PanelKernel) -> K::Output
    );
}

impl Avx512 {
    run_with!(
        Avx512,
        "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
        fn run_panels(kernel: PanelKernel) -> K::Output
    );
}

/// What all have in common.
macro_rules! common {
    () => {
        type Floats = Avx512;
        type Ints = __m512i;

        instructions! {
            fn splat_ints(x: i32) -> __m512i = _mm512_set1_epi32(x);
            fn add_ints(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
            fn and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
            fn or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
            fn shift_right(x: __m512i, by: u32) -> __m512i =
                _mm512_srlv_epi32(x, _mm512_set1_epi32(by as i32));
            fn shift_left(x: __m512i, by: u32) -> __m512i =
                _mm512_sllv_epi32(x, _mm512_set1_epi32(by as i32));
            fn to_floats(x: __m512i) -> __m512 = _mm512_cvtepi32_ps(x);
            fn small_floats(x: __m512i, offset: u8) -> __m512 = look_up(x, offset);
            fn narrow_int16(first: __m512, second: __m512) -> __m512i =
                join_words(_mm512_cvtps_epi32(first), _mm512_cvtps_epi32(second));
            fn transpose(square: &mut [[f32; 16]; 16]) = transpose(square);
        }

        instructions! {
            unsafe fn load_ints(from: *const u8) -> __m512i = _mm512_loadu_si512(from.cast());
            unsafe fn store_ints(x: __m512i, to: *mut u8) = _mm512_storeu_si512(to.cast(), x);
            unsafe fn load_bytes(from: *const u8) -> __m512 =
                _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast())));
        }
    };
}

impl PanelLanes for Avx512 {
    common!();

    #[inline(always)]
    fn floats(self) -> Avx512 {
        self
    }

    instructions! {
        fn dot_int16(a: __m512i, b: __m512i, sum: __m512i) -> __m512i =
            _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
        fn dot_bf16(a: __m512i, b: __m512i, sum: __m512) -> __m512 = {
            let high = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            let low = |x| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(x));
            let high = |x| _mm512_castsi512_ps(_mm512_and_si512(x, high));
            _mm512_fmadd_ps(high(a), high(b), _mm512_fmadd_ps(low(a), low(b), sum))
        };
        fn join_bf16(low: __m512, high: __m512) -> __m512i =
            _mm512_or_si512(round(low), _mm512_slli_epi32::<16>(round(high)));
        fn narrow_bf16(first: __m512, second: __m512) -> __m512i =
            join_words(round(first), round(second));
    }
}

impl PanelLanes for Vnni {
    common!();

    #[inline(always)]
    fn floats(self) -> Avx512 {
        self.lanes
    }

    instructions! {
        fn store_int16_bytes(x: __m512, upper: &mut [i8; 16], lower: &mut [i8; 16]) = {
            let words = _mm512_cvtps_epi32(x);
            let uppers = _mm512_srai_epi32::<8>(_mm512_add_epi32(words, _mm512_set1_epi32(128)));
            // Sixteen bytes are borrowed of each.
            _mm_storeu_si128(upper.as_mut_ptr().cast(), ordered_bytes(uppers));
            _mm_storeu_si128(lower.as_mut_ptr().cast(), ordered_bytes(words));
        };
        fn dot_int16(a: __m512i, b: __m512i, sum: __m512i) -> __m512i =
            add_int16_products(a, b, sum);
        fn dot_int8(a: __m512i, b: __m512i, sum: __m512i) -> __m512i = add_int8_products(a, b, sum);
        fn dot_bf16(a: __m512i, b: __m512i, sum: __m512) -> __m512 = {
            // The two types are the same bits.
            let pairs = |x| std::mem::transmute::<__m512i, __m512bh>(x);
            _mm512_dpbf16_ps(sum, pairs(a), pairs(b))
        };
        fn join_bf16(low: __m512, high: __m512) -> __m512i =
            _mm512_permutexvar_epi16(interleave(), round_both(low, high));
        fn narrow_bf16(first: __m512, second: __m512) -> __m512i = round_both(first, second);
    }
}

impl PanelLanes for Int16Vnni {
    common!();

    #[inline(always)]
    fn floats(self) -> Avx512 {
        self.lanes
    }

    #[inline(always)]
    fn dot_bf16(self, a: __m512i, b: __m512i, sum: __m512) -> __m512 {
        self.lanes.dot_bf16(a, b, sum)
    }

    #[inline(always)]
    fn join_bf16(self, low: __m512, high: __m512) -> __m512i {
        self.lanes.join_bf16(low, high)
    }

    #[inline(always)]
    fn narrow_bf16(self, first: __m512, second: __m512) -> __m512i {
        self.lanes.narrow_bf16(first, second)
    }

    instructions! {
        fn dot_int16(a: __m512i, b: __m512i, sum: __m512i) -> __m512i =
            add_int16_products(a, b, sum);
    }
}

/// The numbers of both, one after the other, as bf16.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn round_both(first: __m512, second: __m512) -> __m512i {
    // SAFETY: the two types are the same bits.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first)) }
}

/// The lower halves of both, one after the other.
#[inline]
#[target_feature(enable = "avx512f")]
fn join_words(first: __m512i, second: __m512i) -> __m512i {
    let (first, second) = (_mm512_cvtepi32_epi16(first), _mm512_cvtepi32_epi16(second));
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second)
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

/// One instruction, as above.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_int16_products(a: __m512i, b: __m512i, mut sum: __m512i) -> __m512i {
    // SAFETY: it reads and writes these three registers alone.
    unsafe {
        asm!(
            "vpdpwssd {sum}, {a}, {b}",
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
