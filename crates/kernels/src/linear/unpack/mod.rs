//! Rows of any [`WeightFormat`] as f32.
//!
//! Roofline: reads `block_bytes / block_weights` and writes 4 bytes per weight (into cache), with
//! about one multiplication and one addition, never fused: every level gives the same bits.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod block_32;
pub(crate) mod reference;
pub(crate) mod super_block;

use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::weight_format::WeightFormat;

/// bytes: one or more whole blocks · out: as many weights as the blocks hold
pub fn unpack_row(format: WeightFormat, bytes: &[u8], out: &mut [f32]) {
    check(format, bytes, out);
    reference::unpack(format, bytes, out);
}

/// Weights of whole blocks.
pub(crate) struct Unpack<'a> {
    pub(crate) format: WeightFormat,
    pub(crate) bytes: &'a [u8],
    pub(crate) out: &'a mut [f32],
}

impl Kernel for Unpack<'_> {
    fn reference(self) {
        check(self.format, self.bytes, self.out);
        reference::unpack(self.format, self.bytes, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        lanes.unpack(self.format, self.bytes, self.out);
    }
}

fn check(format: WeightFormat, bytes: &[u8], out: &[f32]) {
    let (weights, name) = (out.len(), format.name());
    assert_eq!(format.row_bytes(weights), Some(bytes.len()), "bytes of {weights} {name} weights");
}

#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
#[inline]
fn array<const BYTES: usize>(block: &[u8]) -> &[u8; BYTES] {
    block.try_into().expect("a slice as long as the block")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn last_16<const BYTES: usize>(block: &[u8; BYTES]) -> &[u8; 16] {
    block.last_chunk().expect("every block ends with 16 bytes of weights")
}
