//! A page as it lies in a tier: a header that says whose it is, then its bytes.
//!
//! | offset | bytes | what |
//! |---:|---:|---|
//! | 0 | 8 | magic, `TERRPAGE` |
//! | 8 | 2 | version of this format, 1 |
//! | 10 | 2 | bytes of the header, 88 |
//! | 12 | 4 | bytes of the page |
//! | 16 | 32 | fingerprint of the model |
//! | 48 | 32 | content key of the page |
//! | 80 | 8 | XXH3-64, seed 0, of bytes 0 to 80 and of the page |
//! | 88 | | the page |
//!
//! Numbers are little-endian. A record of any other version is a miss: pages are computed again,
//! never converted. The checksum finds damage, not malice: whoever can write to a tier can also
//! write a record that decodes.

use std::hash::Hasher;

use terrace_cache::PageKey;
use thiserror::Error;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"TERRPAGE";
const VERSION: u16 = 1;
const CHECKSUM_AT: usize = 80;

/// Bytes of a record before the page.
pub const HEADER_BYTES: usize = 88;

/// What a record says about its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    pub model: [u8; 32],
    pub key: PageKey,
}

/// Why bytes are not the record that was looked for. Each is a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordFault {
    #[error("torn: {bytes} of {want_bytes} bytes are there")]
    Torn { bytes: usize, want_bytes: usize },
    #[error("not a page record")]
    NotARecord,
    #[error("format version {0}, this is version {VERSION}")]
    OtherVersion(u16),
    #[error("{bytes} bytes instead of {want_bytes}")]
    WrongLength { bytes: usize, want_bytes: usize },
    #[error("of another model")]
    OtherModel,
    #[error("of another page")]
    OtherKey,
    #[error("checksum {found:016x} instead of {want:016x}")]
    WrongChecksum { found: u64, want: u64 },
}

/// The record of `page`, which has less than 4 GiB.
pub fn encode(header: &RecordHeader, page: &[u8]) -> Vec<u8> {
    let page_bytes = u32::try_from(page.len()).expect("a page has less than 4 GiB");
    let mut record = Vec::with_capacity(HEADER_BYTES + page.len());
    record.extend_from_slice(&MAGIC);
    record.extend_from_slice(&VERSION.to_le_bytes());
    record.extend_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
    record.extend_from_slice(&page_bytes.to_le_bytes());
    record.extend_from_slice(&header.model);
    record.extend_from_slice(header.key.as_bytes());
    let checksum = checksum(&record, page);
    record.extend_from_slice(&checksum.to_le_bytes());
    record.extend_from_slice(page);
    record
}

/// The page of `page_bytes` bytes in a record, if it is the one that was looked for.
pub fn decode<'a>(
    bytes: &'a [u8],
    expected: &RecordHeader,
    page_bytes: usize,
) -> Result<&'a [u8], RecordFault> {
    let page = verify(bytes, &expected.key)?;
    if array::<32>(bytes, 16) != expected.model {
        return Err(RecordFault::OtherModel);
    }
    if page.len() != page_bytes {
        return Err(RecordFault::WrongLength { bytes: page.len(), want_bytes: page_bytes });
    }
    Ok(page)
}

/// The page in a whole and undamaged record of `key`, of whatever model and length.
pub fn verify<'a>(bytes: &'a [u8], key: &PageKey) -> Result<&'a [u8], RecordFault> {
    if bytes.len() < HEADER_BYTES {
        return Err(RecordFault::Torn { bytes: bytes.len(), want_bytes: HEADER_BYTES });
    }
    let (header, page) = bytes.split_at(HEADER_BYTES);
    if array::<8>(header, 0) != MAGIC {
        return Err(RecordFault::NotARecord);
    }
    let version = u16::from_le_bytes(array(header, 8));
    if version != VERSION {
        return Err(RecordFault::OtherVersion(version));
    }
    let header_bytes = usize::from(u16::from_le_bytes(array(header, 10)));
    let want_bytes = header_bytes + u32::from_le_bytes(array(header, 12)) as usize;
    if header_bytes != HEADER_BYTES || bytes.len() > want_bytes {
        return Err(RecordFault::WrongLength { bytes: bytes.len(), want_bytes });
    }
    if bytes.len() < want_bytes {
        return Err(RecordFault::Torn { bytes: bytes.len(), want_bytes });
    }
    if array::<32>(header, 48) != *key.as_bytes() {
        return Err(RecordFault::OtherKey);
    }
    let want = u64::from_le_bytes(array(header, CHECKSUM_AT));
    let found = checksum(&header[..CHECKSUM_AT], page);
    if found != want {
        return Err(RecordFault::WrongChecksum { found, want });
    }
    Ok(page)
}

fn checksum(header: &[u8], page: &[u8]) -> u64 {
    let mut hash = XxHash3_64::new();
    hash.write(header);
    hash.write(page);
    hash.finish()
}

fn array<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    bytes[at..at + BYTES].try_into().expect("a slice of that length")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(byte: u8) -> RecordHeader {
        RecordHeader { model: [byte; 32], key: PageKey::from_bytes([byte ^ 0x55; 32]) }
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: &RecordHeader, page_bytes: usize, want: RecordFault) {
        assert_eq!(decode(bytes, expected, page_bytes), Err(want));
    }

    /// The documented bytes, written down by hand.
    #[test]
    fn the_layout_is_as_documented() {
        let record = encode(&header(7), b"page");
        assert_eq!(record.len(), 92);
        assert_eq!(&record[..16], b"TERRPAGE\x01\x00\x58\x00\x04\x00\x00\x00");
        assert_eq!((&record[16..48], &record[48..80]), (&[7; 32][..], &[0x52; 32][..]));
        let covered = [&record[..80], b"page"].concat();
        let want = XxHash3_64::oneshot(&covered);
        assert_eq!(record[80..88], want.to_le_bytes());
        assert_eq!(&record[88..], b"page");
    }

    #[test]
    fn a_fault_says_what_is_wrong() {
        let record = encode(&header(1), &[9; 100]);
        check(&[], &header(1), 100, RecordFault::Torn { bytes: 0, want_bytes: 88 });
        check(&record[..150], &header(1), 100, RecordFault::Torn { bytes: 150, want_bytes: 188 });
        check(&[0; 188], &header(1), 100, RecordFault::NotARecord);
        check(&record, &header(2), 100, RecordFault::OtherKey);
        let other_model = RecordHeader { model: [3; 32], ..header(1) };
        check(&record, &other_model, 100, RecordFault::OtherModel);
        let longer = [&record[..], b"x"].concat();
        let want = RecordFault::WrongLength { bytes: 189, want_bytes: 188 };
        check(&longer, &header(1), 100, want);
        let want = RecordFault::WrongLength { bytes: 100, want_bytes: 99 };
        check(&record, &header(1), 99, want);
    }

    /// Also where everything else of it is right, as in a file of a later program.
    #[test]
    fn older_and_newer_versions_are_misses() {
        for version in [0u16, 2, 999] {
            let mut record = encode(&header(1), &[9; 100]);
            record[8..10].copy_from_slice(&version.to_le_bytes());
            let sum = checksum(&record[..CHECKSUM_AT], &record[HEADER_BYTES..]);
            record[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
            check(&record, &header(1), 100, RecordFault::OtherVersion(version));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_flipped_bit_and_every_truncation_is_a_fault(
            page in prop::collection::vec(any::<u8>(), 0..300),
            byte in any::<u8>(),
        ) {
            let mut record = encode(&header(byte), &page);
            prop_assert_eq!(decode(&record, &header(byte), page.len()), Ok(&page[..]));
            for bit in 0..record.len() * 8 {
                record[bit / 8] ^= 1 << (bit % 8);
                prop_assert!(decode(&record, &header(byte), page.len()).is_err(), "bit {bit}");
                record[bit / 8] ^= 1 << (bit % 8);
            }
            for end in 0..record.len() {
                prop_assert!(decode(&record[..end], &header(byte), page.len()).is_err());
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let with_magic = [&MAGIC[..], &bytes].concat();
            for bytes in [bytes, with_magic] {
                prop_assert!(decode(&bytes, &header(0), 100).is_err());
            }
        }
    }
}
