//! Two four-bit values in a byte.

/// Writes four-bit codes: those of `high` into the upper halves of the bytes.
pub(super) fn pack_nibbles(
    high: impl Iterator<Item = u8>,
    low: impl Iterator<Item = u8>,
    out: &mut [u8],
) {
    for ((byte, high), low) in out.iter_mut().zip(high).zip(low) {
        *byte = high << 4 | low;
    }
}
