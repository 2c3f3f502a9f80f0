//! Rows of any [`WeightFormat`] as f32.
//!
//! Roofline: reads `block_bytes / block_weights` and writes 4 bytes per weight (into cache), with
//! about one multiplication and one addition, never fused: every level gives the same bits.

pub(crate) mod reference;

use crate::weight_format::WeightFormat;

/// bytes: one or more whole blocks · out: as many weights as the blocks hold
pub fn unpack_row(format: WeightFormat, bytes: &[u8], out: &mut [f32]) {
    check(format, bytes, out);
    reference::unpack(format, bytes, out);
}

pub(crate) fn check(format: WeightFormat, bytes: &[u8], out: &[f32]) {
    assert_eq!(
        format.row_bytes(out.len()),
        Some(bytes.len()),
        "bytes of {} {} weights",
        out.len(),
        format.name()
    );
}
