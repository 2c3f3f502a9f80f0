//! New dense weights of a model, in parts, as payloads of Kafka messages.
//!
//! A header, then a piece of the bytes of a safetensors file. All integers are little-endian:
//!
//! | bytes | |
//! |---|---|
//! | 0..4 | magic number, "TRDW" |
//! | 4..8 | version of this format, 1 |
//! | 8..16 | version of the weights: a later publication has a greater one |
//! | 16..24 | bytes of all pieces together |
//! | 24..32 | XXH3-64 of all pieces together |
//! | 32..36 | which part this is, from 0 |
//! | 36..40 | how many parts there are |
//!
//! Pieces are equally long, but the last may be shorter: so a part's place follows from its header,
//! and a piece of another length is refused. What is in the safetensors is not looked at here.

use thiserror::Error;
use twox_hash::XxHash3_64;

const MAGIC: u32 = u32::from_le_bytes(*b"TRDW");
const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 40;

/// One message, borrowed from its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DensePart<'a> {
    pub whole: DenseWhole,
    /// Less than [`DenseWhole::parts`].
    pub part: u32,
    pub piece: &'a [u8],
}

/// What all parts of one publication have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseWhole {
    pub version: u64,
    pub bytes: u64,
    pub hash: u64,
    pub parts: u32,
}

/// Why a payload is no part of dense weights, or why parts give no weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DenseFault {
    #[error("{bytes} bytes are less than a header of {HEADER_BYTES}")]
    Short { bytes: usize },
    #[error("it begins with {found:#010x} and not with {MAGIC:#010x}")]
    Magic { found: u32 },
    #[error("format {found} is not known here, only {FORMAT}; bring this server up to date")]
    Format { found: u32 },
    #[error("part {part} of {parts} with {bytes} bytes altogether cannot be")]
    Parts { part: u32, parts: u32, bytes: u64 },
    #[error("a piece of {found} bytes where {want} belong")]
    PieceBytes { found: usize, want: u64 },
    #[error("weights of {bytes} bytes are more than the {bytes_most} allowed")]
    TooLarge { bytes: u64, bytes_most: usize },
    #[error("version {version}: the parts do not have the hash that they announce")]
    Hash { version: u64 },
}

impl<'a> DensePart<'a> {
    pub fn decode(payload: &'a [u8]) -> Result<Self, DenseFault> {
        let Some((header, piece)) = payload.split_at_checked(HEADER_BYTES) else {
            return Err(DenseFault::Short { bytes: payload.len() });
        };
        let magic = u32_at(header, 0);
        if magic != MAGIC {
            return Err(DenseFault::Magic { found: magic });
        }
        let format = u32_at(header, 4);
        if format != FORMAT {
            return Err(DenseFault::Format { found: format });
        }
        let [version, bytes, hash] = [8, 16, 24].map(|at| u64_at(header, at));
        let [part, parts] = [32, 36].map(|at| u32_at(header, at));
        let whole = DenseWhole { version, bytes, hash, parts };
        let want = whole.piece_bytes(part).ok_or(DenseFault::Parts { part, parts, bytes })?;
        if piece.len() as u64 != want {
            return Err(DenseFault::PieceBytes { found: piece.len(), want });
        }
        Ok(DensePart { whole, part, piece })
    }

    /// The payloads of one version, in order, each of at most `message_bytes_most`; none where
    /// there are no bytes.
    ///
    /// # Panics
    ///
    /// Where a message has no room for a header and a byte, or there would be 2^32 messages.
    pub fn split(
        version: u64,
        bytes: &'a [u8],
        message_bytes_most: usize,
    ) -> impl Iterator<Item = Vec<u8>> + 'a {
        assert!(message_bytes_most > HEADER_BYTES, "a message has room for a header and a byte");
        let parts = bytes.len().div_ceil(message_bytes_most - HEADER_BYTES);
        let parts = u32::try_from(parts).expect("less than 2^32 parts");
        let hash = dense_hash(bytes);
        let whole = DenseWhole { version, bytes: bytes.len() as u64, hash, parts };
        let pieces = bytes.chunks(bytes.len().div_ceil(parts.max(1) as usize).max(1));
        (0..parts).zip(pieces).map(move |(part, piece)| DensePart { whole, part, piece }.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let DenseWhole { version, bytes, hash, parts } = self.whole;
        let mut message = Vec::with_capacity(HEADER_BYTES + self.piece.len());
        message.extend(MAGIC.to_le_bytes());
        message.extend(FORMAT.to_le_bytes());
        message.extend([version, bytes, hash].iter().flat_map(|field| field.to_le_bytes()));
        message.extend([self.part, parts].iter().flat_map(|field| field.to_le_bytes()));
        message.extend_from_slice(self.piece);
        message
    }

    /// Where the piece begins in the whole.
    pub fn begin(&self) -> u64 {
        u64::from(self.part) * self.whole.piece_bytes_most()
    }
}

impl DenseWhole {
    fn piece_bytes_most(&self) -> u64 {
        self.bytes.div_ceil(u64::from(self.parts))
    }

    /// Of one part; `None` where there is no such part, or nothing would be in it.
    fn piece_bytes(&self, part: u32) -> Option<u64> {
        if part >= self.parts {
            return None;
        }
        let most = self.piece_bytes_most();
        let last_begin = most.checked_mul(u64::from(self.parts) - 1)?;
        let last = self.bytes.checked_sub(last_begin).filter(|&bytes| bytes > 0)?;
        Some(if part + 1 == self.parts { last } else { most })
    }
}

pub fn dense_hash(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A message with one field of its header changed.
    fn with_field(at: usize, field: &[u8], piece: usize) -> Vec<u8> {
        let mut message =
            DensePart::split(7, &[1, 2, 3, 4, 5], HEADER_BYTES + 2).next().expect("three parts");
        message[at..at + field.len()].copy_from_slice(field);
        message.resize(HEADER_BYTES + piece, 0);
        message
    }

    #[test]
    fn what_is_no_part_is_refused_with_the_reason() {
        let cannot_be = |part, parts, bytes| DenseFault::Parts { part, parts, bytes };
        let cases = [
            (vec![], DenseFault::Short { bytes: 0 }),
            (with_field(0, &[], 2)[..39].to_vec(), DenseFault::Short { bytes: 39 }),
            (with_field(0, b"HCTR", 2), DenseFault::Magic { found: 0x5254_4348 }),
            (with_field(4, &[2], 2), DenseFault::Format { found: 2 }),
            (with_field(32, &[3], 2), cannot_be(3, 3, 5)),
            (with_field(36, &[0], 2), cannot_be(0, 0, 5)),
            (with_field(36, &[4], 2), cannot_be(0, 4, 5)),
            (with_field(16, &[0], 2), cannot_be(0, 3, 0)),
            (with_field(0, &[], 1), DenseFault::PieceBytes { found: 1, want: 2 }),
            (with_field(0, &[], 3), DenseFault::PieceBytes { found: 3, want: 2 }),
            (with_field(32, &[2], 2), DenseFault::PieceBytes { found: 2, want: 1 }),
        ];
        for (payload, want) in cases {
            assert_eq!(DensePart::decode(&payload), Err(want));
        }
        assert!(DensePart::decode(&with_field(0, &[], 2)).is_ok());
    }

    proptest! {
        #[test]
        fn parts_lie_side_by_side_and_cover_all(
            version in any::<u64>(),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            most in HEADER_BYTES + 1..HEADER_BYTES + 50,
        ) {
            let messages: Vec<_> = DensePart::split(version, &bytes, most).collect();
            let mut back = Vec::new();
            for (index, message) in messages.iter().enumerate() {
                prop_assert!(message.len() <= most);
                let part = DensePart::decode(message).expect("a part");
                let parts = messages.len() as u32;
                let hash = dense_hash(&bytes);
                let whole = DenseWhole { version, bytes: bytes.len() as u64, hash, parts };
                prop_assert_eq!((part.whole, part.part), (whole, index as u32));
                prop_assert_eq!(part.begin(), back.len() as u64);
                back.extend_from_slice(part.piece);
            }
            prop_assert_eq!(back, bytes);
        }

        #[test]
        fn no_bytes_make_decoding_panic(
            begins_well in any::<bool>(),
            fields in any::<[u64; 4]>(),
            small in any::<bool>(),
            piece in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let fields = fields.map(|field| if small { field % 64 } else { field });
            let mut payload = if begins_well {
                [MAGIC.to_le_bytes(), FORMAT.to_le_bytes()].concat()
            } else {
                Vec::new()
            };
            payload.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
            payload.extend(piece);
            if let Ok(part) = DensePart::decode(&payload) {
                prop_assert!(part.begin() + part.piece.len() as u64 <= part.whole.bytes);
            }
        }
    }
}
