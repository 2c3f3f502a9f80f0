//! Rows as databases have them: numbers of 4 bytes, little-endian, one behind the other.

/// In place of what `bytes` had.
pub fn write_row(row: &[f32], bytes: &mut Vec<u8>) {
    bytes.resize(size_of_val(row), 0);
    for (bytes, number) in bytes.as_chunks_mut().0.iter_mut().zip(row) {
        *bytes = number.to_le_bytes();
    }
}

/// Fails, and leaves the row as it is, where these are not as many bytes as it has.
#[inline]
pub fn read_row(bytes: &[u8], row: &mut [f32]) -> Result<(), WrongLength> {
    let wanted = size_of_val(row);
    if bytes.len() != wanted {
        return Err(WrongLength { found: bytes.len(), wanted });
    }
    for (number, bytes) in row.iter_mut().zip(bytes.as_chunks().0) {
        *number = f32::from_le_bytes(*bytes);
    }
    Ok(())
}

/// Of a row, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongLength {
    pub found: usize,
    pub wanted: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_bit_by_bit() {
        let row = [0.0, -0.0, f32::NAN, f32::INFINITY, 1e-40, 1.5];
        let (mut bytes, mut back) = (vec![1], [9.0; 6]);
        write_row(&row, &mut bytes);
        assert_eq!(bytes.len(), 24);
        assert_eq!(&bytes[20..], [0, 0, 0xc0, 0x3f]);
        assert_eq!(read_row(&bytes, &mut back), Ok(()));
        assert_eq!(back.map(f32::to_bits), row.map(f32::to_bits));
    }

    #[test]
    fn bytes_of_another_length_are_no_row() {
        for length in [0, 3, 7, 9, 12] {
            let mut row = [5.0; 2];
            let error = WrongLength { found: length, wanted: 8 };
            assert_eq!(read_row(&vec![0; length], &mut row), Err(error));
            assert_eq!(row, [5.0; 2]);
        }
    }
}
