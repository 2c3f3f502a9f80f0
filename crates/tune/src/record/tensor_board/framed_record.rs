//! TFRecord framing: a length, the bytes, and a masked CRC-32C behind each.

/// One record as it stands in a file.
pub fn framed(record: &[u8]) -> Vec<u8> {
    let length = (record.len() as u64).to_le_bytes();
    let mut framed = Vec::with_capacity(record.len() + 16);
    framed.extend(length);
    framed.extend(masked(crc32c(&length)).to_le_bytes());
    framed.extend(record);
    framed.extend(masked(crc32c(record)).to_le_bytes());
    framed
}

/// As TensorFlow does, since data that holds checksums may itself be checksummed.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Castagnoli's polynomial, bit by bit: a record has a few hundred bytes.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| match crc & 1 {
            0 => crc >> 1,
            _ => (crc >> 1) ^ 0x82f6_3b78,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }
}
