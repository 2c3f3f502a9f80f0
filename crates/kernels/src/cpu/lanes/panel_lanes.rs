//! What the products with panels of weights need beyond [`Lanes`]: small integers and bf16.
//!
//! A lane is a row of weights, so nothing is ever added across lanes, and an integer product has
//! the same bits at every level.

use super::Lanes;

/// A level's vector of f32.
pub(super) type Vector<S> = <<S as PanelLanes>::Floats as Lanes>::Vector;

pub(crate) trait PanelLanes: Copy {
    type Floats: Lanes;
    /// As many 32-bit integers as [`Lanes::COUNT`].
    type Ints: Copy;

    /// The level's f32 vectors.
    fn floats(self) -> Self::Floats;

    fn splat_ints(self, x: i32) -> Self::Ints;
    fn add_ints(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    fn and(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    fn or(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// Fills up with zeros.
    fn shift_right(self, x: Self::Ints, by: u32) -> Self::Ints;
    fn shift_left(self, x: Self::Ints, by: u32) -> Self::Ints;
    fn to_floats(self, x: Self::Ints) -> Vector<Self>;
    /// The lowest four bits of each lane, less `offset`.
    #[inline(always)]
    fn small_floats(self, x: Self::Ints, offset: u8) -> Vector<Self> {
        let base = self.floats();
        base.sub(self.to_floats(self.and(x, self.splat_ints(15))), base.splat(f32::from(offset)))
    }
    /// `sum` and both products of each lane's two signed 16-bit numbers.
    fn dot_int16(self, a: Self::Ints, b: Self::Ints, sum: Self::Ints) -> Self::Ints;
    /// `sum` and the products of each lane's four bytes, of `a` unsigned and of `b` signed. Only
    /// where [`Simd::multiplies_int8`](super::Simd::multiplies_int8).
    fn dot_int8(self, _a: Self::Ints, _b: Self::Ints, _sum: Self::Ints) -> Self::Ints {
        unreachable!("this level does not multiply bytes");
    }
    /// `sum` and both products of each lane's two bf16 numbers, in an order of the level's own.
    fn dot_bf16(self, a: Self::Ints, b: Self::Ints, sum: Vector<Self>) -> Vector<Self>;
    /// Each lane's two numbers rounded to bf16, `low` in the lower half.
    fn join_bf16(self, low: Vector<Self>, high: Vector<Self>) -> Self::Ints;

    /// The numbers of both, one after the other, rounded to bf16.
    fn narrow_bf16(self, first: Vector<Self>, second: Vector<Self>) -> Self::Ints;

    /// The numbers of both, one after the other, rounded to 16-bit integers, which hold them.
    fn narrow_int16(self, first: Vector<Self>, second: Vector<Self>) -> Self::Ints;

    /// Sixteen whole numbers, each as 256 times a signed byte and another one, in
    /// [`INT8_ORDER`](crate::tiles::INT8_ORDER). Only where
    /// [`Simd::multiplies_int8`](super::Simd::multiplies_int8).
    fn store_int16_bytes(self, _x: Vector<Self>, _upper: &mut [i8; 16], _lower: &mut [i8; 16]) {
        unreachable!("this level does not multiply bytes");
    }

    /// Rows become columns; the bits of the numbers stay as they are.
    #[inline(always)]
    fn transpose(self, square: &mut [[f32; 16]; 16]) {
        for row in 1..16 {
            let (above, below) = square.split_at_mut(row);
            for (column, above) in above.iter_mut().enumerate() {
                std::mem::swap(&mut above[row], &mut below[0][column]);
            }
        }
    }

    /// # Safety
    /// `4 COUNT` bytes can be read at `from`, which need not be aligned.
    unsafe fn load_ints(self, from: *const u8) -> Self::Ints;
    /// # Safety
    /// `4 COUNT` bytes can be written at `to`, which need not be aligned.
    unsafe fn store_ints(self, x: Self::Ints, to: *mut u8);
    /// # Safety
    /// `COUNT` signed bytes can be read at `from`.
    unsafe fn load_bytes(self, from: *const u8) -> Vector<Self>;
}

/// Work on panels, as its specification and over vectors.
pub(crate) trait PanelKernel {
    type Output;
    fn reference(self) -> Self::Output;
    /// Must be `#[inline(always)]`, with everything in it that uses `lanes`.
    fn simd<S: PanelLanes>(self, lanes: S) -> Self::Output;
}

/// Added to the bits of an f32, and one more if the last kept bit is set, it rounds to bf16.
#[cfg(target_arch = "x86_64")]
pub(super) const ROUND_BF16: i32 = 0x7fff;
/// Not a number.
#[cfg(target_arch = "x86_64")]
pub(super) const NAN_BF16: i32 = 0x7fc0;
