//! Vectors of f32, so that one text of a kernel serves every instruction level.
//!
//! A [`Kernel`] is one piece of work written twice: plainly, and over [`Lanes`]. [`Simd::run`]
//! compiles the second once for each level and is the only place where a level is chosen. A value
//! of a level's type is the proof that the processor has its instructions, so arithmetic is safe.
//!
//! Everything over `Lanes` must be `#[inline(always)]`: only inside [`Simd::run`] does the
//! compiler know the level's instructions.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod exp;
#[cfg(target_arch = "x86_64")]
mod instructions;
#[cfg(target_arch = "x86_64")]
mod panel_avx2;
#[cfg(target_arch = "x86_64")]
mod panel_avx512;
mod panel_lanes;
mod sin_cos;

#[cfg(target_arch = "x86_64")]
pub(crate) use amx::{Amx, TileRow, TileUnits, Tiles};
pub(crate) use panel_lanes::{PanelKernel, PanelLanes};

use half::f16;

use crate::cpu::cpu_level::CpuLevel;
use crate::linear::unpack::block_32::{Block32, ForBlock32, for_block_32};
use crate::linear::unpack::reference;
use crate::linear::weight_format::WeightFormat;

/// Bytes that come from memory together.
pub(crate) const CACHE_LINE: usize = 64;

pub(crate) trait Lanes: Copy {
    /// Numbers in a vector.
    const COUNT: usize;
    /// Rows of inputs whose products with four rows of weights stay in registers.
    const TILE_ROWS: usize;

    type Vector: Copy;
    /// 32 numbers.
    type Weights32: Copy + AsRef<[Self::Vector]>;

    fn splat(self, x: f32) -> Self::Vector;
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `b` where one of the two is not a number.
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `b` where one of the two is not a number.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a * b + c`, rounded once.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// `1 / x` to 11 bits, for what will be rounded to bf16; processors differ in the last bits.
    fn rough_inverse(self, x: Self::Vector) -> Self::Vector;
    /// To the nearest integer.
    fn round(self, x: Self::Vector) -> Self::Vector;
    /// `x * 2^power` for integers `-126 <= power <= 128`.
    fn times_power_of_two(self, x: Self::Vector, power: Self::Vector) -> Self::Vector;
    /// `x`, or 0 where `a < b`.
    fn unless_less(self, x: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The sum of each vector's lanes, added in the same order for all four.
    fn sums(self, vectors: [Self::Vector; 4]) -> [f32; 4];

    /// The largest lane; the lanes are numbers.
    fn largest(self, x: Self::Vector) -> f32;

    /// # Safety
    /// `COUNT` numbers can be read at `from`, which need not be aligned.
    unsafe fn load(self, from: *const f32) -> Self::Vector;
    /// The first `count <= COUNT` lanes; the others are 0.
    ///
    /// # Safety
    /// `count` numbers can be read at `from`, which need not be aligned.
    unsafe fn load_part(self, from: *const f32, count: usize) -> Self::Vector;
    /// # Safety
    /// `COUNT` numbers can be written at `to`, which need not be aligned.
    unsafe fn store(self, x: Self::Vector, to: *mut f32);
    /// The first `count <= COUNT` lanes.
    ///
    /// # Safety
    /// `count` numbers can be written at `to`, which need not be aligned.
    unsafe fn store_part(self, x: Self::Vector, to: *mut f32, count: usize);

    /// # Safety
    /// `COUNT` f16 can be read at `from`, which need not be aligned.
    unsafe fn load_f16(self, from: *const u8) -> Self::Vector;
    /// # Safety
    /// `COUNT` bf16 can be read at `from`, which need not be aligned.
    unsafe fn load_bf16(self, from: *const u8) -> Self::Vector;

    /// The weights of one block, in registers.
    fn unpack_32<F: Block32>(self, block: &[u8]) -> Self::Weights32;
    /// All blocks of any other format; the caller has checked the lengths.
    fn unpack_others(self, format: WeightFormat, bytes: &[u8], out: &mut [f32]);
    /// Asks for the cache line at `address`, which may lie anywhere.
    fn prefetch(self, address: *const u8);
    /// As [`prefetch`](Self::prefetch), of what will be written.
    fn prefetch_to_write(self, address: *const u8);
    /// Writes as many lanes as `to` takes, at most `COUNT`, rounded to the nearest f16.
    fn write_f16(self, x: Self::Vector, to: &mut [f16]);

    /// Asks for so many bytes from `start` on.
    #[inline(always)]
    fn prefetch_bytes(self, start: *const u8, bytes: usize) {
        for line in (0..bytes).step_by(CACHE_LINE) {
            self.prefetch(start.wrapping_add(line));
        }
    }

    /// Reads up to `COUNT` numbers; missing lanes are 0.
    #[inline(always)]
    fn read(self, from: &[f32]) -> Self::Vector {
        if from.len() < Self::COUNT {
            // SAFETY: the slice holds as many numbers.
            unsafe { self.load_part(from.as_ptr(), from.len()) }
        } else {
            // SAFETY: the slice holds at least `COUNT` numbers.
            unsafe { self.load(from.as_ptr()) }
        }
    }

    /// Writes as many lanes as `to` takes, at most `COUNT`.
    #[inline(always)]
    fn write(self, x: Self::Vector, to: &mut [f32]) {
        if to.len() < Self::COUNT {
            // SAFETY: the slice holds as many numbers.
            unsafe { self.store_part(x, to.as_mut_ptr(), to.len()) }
        } else {
            // SAFETY: the slice holds at least `COUNT` numbers.
            unsafe { self.store(x, to.as_mut_ptr()) }
        }
    }

    /// See [`unpack_row`](crate::linear::unpack::unpack_row); the caller has checked the lengths.
    #[inline(always)]
    fn unpack(self, format: WeightFormat, bytes: &[u8], out: &mut [f32]) {
        match format {
            WeightFormat::F16 => widen::<Self, true>(self, bytes, out),
            WeightFormat::Bf16 => widen::<Self, false>(self, bytes, out),
            _ if for_block_32(format, UnpackBlocks { lanes: self, bytes, out: &mut *out }) => {}
            _ => self.unpack_others(format, bytes, out),
        }
    }

    #[inline(always)]
    fn sum(self, x: Self::Vector) -> f32 {
        self.sums([x; 4])[0]
    }

    #[inline(always)]
    fn exp(self, x: Self::Vector) -> Self::Vector {
        exp::exp(self, x)
    }

    /// `2^x` for `x < 128`, for weights that will be rounded: good to 21 bits.
    #[inline(always)]
    fn exp2(self, x: Self::Vector) -> Self::Vector {
        exp::exp2(self, x)
    }

    /// The sine and the cosine, to within `2^-22` for `|x| <= 1,000,000`.
    #[inline(always)]
    fn sin_cos(self, x: Self::Vector) -> [Self::Vector; 2] {
        sin_cos::sin_cos(self, x)
    }
}

/// One piece of work, as its specification and over vectors.
pub(crate) trait Kernel {
    fn reference(self);
    /// Must be `#[inline(always)]`, with everything in it that uses `lanes`.
    fn simd<L: Lanes>(self, lanes: L);
}

/// The instruction level in use, with the proof that the processor has it.
#[derive(Clone, Copy)]
pub(crate) enum Simd {
    Reference,
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    #[cfg(target_arch = "x86_64")]
    Vnni(panel_avx512::Vnni),
    #[cfg(target_arch = "x86_64")]
    Amx(Amx),
}

impl Simd {
    /// `None` when the processor lacks the level.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn detect(level: CpuLevel) -> Option<Simd> {
        match level {
            CpuLevel::Reference => Some(Simd::Reference),
            CpuLevel::Avx2 => avx2::Avx2::detect().map(Simd::Avx2),
            CpuLevel::Avx512 => avx512::Avx512::detect().map(Simd::Avx512),
            CpuLevel::Avx512Vnni => panel_avx512::Vnni::detect().map(Simd::Vnni),
            CpuLevel::Amx => Amx::detect().map(Simd::Amx),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn detect(level: CpuLevel) -> Option<Simd> {
        (level == CpuLevel::Reference).then_some(Simd::Reference)
    }

    /// Whether there are vector instructions for products of bytes.
    pub(crate) fn multiplies_int8(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Simd::Vnni(_) | Simd::Amx(_) => true,
            _ => false,
        }
    }

    pub(crate) fn amx_is_refused() -> bool {
        #[cfg(target_arch = "x86_64")]
        return Amx::is_refused();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    pub(crate) fn run<K: Kernel>(self, kernel: K) {
        match self {
            Simd::Reference => kernel.reference(),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2(lanes) => lanes.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512(lanes) => lanes.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Simd::Vnni(vnni) => vnni.lanes().run(kernel),
            #[cfg(target_arch = "x86_64")]
            Simd::Amx(amx) => amx.vnni().lanes().run(kernel),
        }
    }

    /// As [`run_panels`](Self::run_panels), for work whose products are of int16: these have an
    /// instruction of their own on more processors than those that [`CpuLevel::Avx512Vnni`] means.
    pub(crate) fn run_int16<K: PanelKernel>(self, kernel: K) -> K::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512(lanes) => match panel_avx512::Int16Vnni::detect() {
                Some(vnni) => vnni.run_panels(kernel),
                None => lanes.run_panels(kernel),
            },
            _ => self.run_panels(kernel),
        }
    }

    pub(crate) fn run_panels<K: PanelKernel>(self, kernel: K) -> K::Output {
        match self {
            Simd::Reference => kernel.reference(),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2(lanes) => lanes.run_panels(kernel),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512(lanes) => lanes.run_panels(kernel),
            #[cfg(target_arch = "x86_64")]
            Simd::Vnni(lanes) => lanes.run_panels(kernel),
            #[cfg(target_arch = "x86_64")]
            Simd::Amx(amx) => amx.vnni().run_panels(kernel),
        }
    }
}

/// Stores what [`Lanes::unpack_32`] gives for each block.
struct UnpackBlocks<'a, L> {
    lanes: L,
    bytes: &'a [u8],
    out: &'a mut [f32],
}

impl<L: Lanes> ForBlock32 for UnpackBlocks<'_, L> {
    #[inline(always)]
    fn run<F: Block32>(self) {
        for (block, out) in self.bytes.chunks_exact(F::BYTES).zip(self.out.as_chunks_mut::<32>().0)
        {
            let weights = self.lanes.unpack_32::<F>(block);
            for (vector, out) in weights.as_ref().iter().zip(out.chunks_exact_mut(L::COUNT)) {
                self.lanes.write(*vector, out);
            }
        }
    }
}

/// Numbers of two bytes, f16 or bf16.
#[inline(always)]
fn widen<L: Lanes, const IS_F16: bool>(lanes: L, bytes: &[u8], out: &mut [f32]) {
    let format = if IS_F16 { WeightFormat::F16 } else { WeightFormat::Bf16 };
    let chunks = bytes.chunks_exact(2 * L::COUNT);
    let rest = chunks.remainder();
    let mut outs = out.chunks_exact_mut(L::COUNT);
    for (chunk, out) in chunks.zip(&mut outs) {
        let from = chunk.as_ptr();
        // SAFETY: the chunk holds `COUNT` numbers.
        let numbers = unsafe { if IS_F16 { lanes.load_f16(from) } else { lanes.load_bf16(from) } };
        lanes.write(numbers, out);
    }
    if !rest.is_empty() {
        reference::unpack(format, rest, outs.into_remainder());
    }
}

/// Writes as many numbers as `to` takes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn put_f16<const COUNT: usize>(numbers: [f16; COUNT], to: &mut [f16]) {
    match to.first_chunk_mut() {
        Some(to) => *to = numbers,
        None => to.copy_from_slice(&numbers[..to.len()]),
    }
}

#[cfg(test)]
mod tests;
