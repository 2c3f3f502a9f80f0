//! New rows of one table as the payload of a Kafka message.
//!
//! A header of two little-endian `u32`, the magic number and the bytes of a value, then keys and
//! values in turn: a key's bytes as [`KeyKind`] has them, a value's `f32`s little-endian. A header
//! alone is a beacon: it says that a publisher lives, and has no rows. Which table the rows are of
//! is the topic's name, and which kind the keys are is not in the message at all.
//!
//! Bits of values are carried as they are: what is a NaN stays the same NaN.

use thiserror::Error;

use super::feed_error::FeedError;
use crate::key_kind::KeyKind;

/// "HCTR" in the order of bytes.
const MAGIC: u32 = 0x5254_4348;
pub(super) const HEADER_BYTES: usize = 8;
const FLOAT_BYTES: usize = size_of::<f32>();

/// The message that a payload is. It borrows the payload, and rows are read as they are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpdateMessage<'a> {
    Beacon,
    Rows(MessageRows<'a>),
}

/// One or more rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageRows<'a> {
    key_kind: KeyKind,
    value_bytes: usize,
    /// Whole rows.
    body: &'a [u8],
}

/// Why a payload is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageFault {
    #[error("{bytes} bytes are less than a header of {HEADER_BYTES}")]
    Short { bytes: usize },
    #[error("it begins with {found:#010x} and not with {MAGIC:#010x}")]
    Magic { found: u32 },
    #[error("a value of {found} bytes is no row of 4-byte floats")]
    ValueBytes { found: u32 },
    #[error("{extra} bytes are left after whole rows of {row_bytes} bytes")]
    Trailing { extra: usize, row_bytes: usize },
}

impl<'a> UpdateMessage<'a> {
    pub fn decode(payload: &'a [u8], key_kind: KeyKind) -> Result<Self, MessageFault> {
        let Some((header, body)) = payload.split_at_checked(HEADER_BYTES) else {
            return Err(MessageFault::Short { bytes: payload.len() });
        };
        let magic = u32_at(header, 0);
        if magic != MAGIC {
            return Err(MessageFault::Magic { found: magic });
        }
        if body.is_empty() {
            return Ok(UpdateMessage::Beacon);
        }
        let found = u32_at(header, 4);
        let value_bytes = found as usize;
        if value_bytes == 0 || !value_bytes.is_multiple_of(FLOAT_BYTES) {
            return Err(MessageFault::ValueBytes { found });
        }
        let row_bytes = key_kind.bytes() + value_bytes;
        match body.len() % row_bytes {
            0 => Ok(UpdateMessage::Rows(MessageRows { key_kind, value_bytes, body })),
            extra => Err(MessageFault::Trailing { extra, row_bytes }),
        }
    }

    /// Puts rows into messages of at most `bytes_most` and gives each to `emit`, in order. Every
    /// row has `dim` floats. An error of `emit` is the call's, and nothing is emitted after it.
    pub fn encode<'r>(
        key_kind: KeyKind,
        dim: usize,
        bytes_most: usize,
        rows: impl IntoIterator<Item = (i64, &'r [f32])>,
        mut emit: impl FnMut(&[u8]) -> Result<(), FeedError>,
    ) -> Result<(), FeedError> {
        let too_long = FeedError::RowBytes { dim, bytes_most };
        let value_bytes = dim.saturating_mul(FLOAT_BYTES);
        let row_bytes = value_bytes.saturating_add(key_kind.bytes());
        let Ok(value_bytes_field) = u32::try_from(value_bytes) else { return Err(too_long) };
        if dim == 0 || row_bytes.saturating_add(HEADER_BYTES) > bytes_most {
            return Err(too_long);
        }
        let mut message = Vec::with_capacity(bytes_most);
        for (key, row) in rows {
            assert_eq!(row.len(), dim, "a row is [dim]");
            if !key_kind.contains(key) {
                return Err(FeedError::Key { key, key_kind });
            }
            if message.len() + row_bytes > bytes_most {
                emit(&message)?;
                message.clear();
            }
            if message.is_empty() {
                message.extend_from_slice(&MAGIC.to_le_bytes());
                message.extend_from_slice(&value_bytes_field.to_le_bytes());
            }
            key_kind.encode_one(key, &mut message);
            message.extend(row.iter().flat_map(|float| float.to_le_bytes()));
        }
        if message.is_empty() { Ok(()) } else { emit(&message) }
    }
}

impl<'a> MessageRows<'a> {
    pub fn count(&self) -> usize {
        self.body.len() / self.row_bytes()
    }

    /// Floats of a row.
    pub fn dim(&self) -> usize {
        self.value_bytes / FLOAT_BYTES
    }

    /// Keys with their rows, in the order of the message; a key may stand in it twice.
    pub fn iter(&self) -> impl Iterator<Item = (i64, impl Iterator<Item = f32> + 'a)> + 'a {
        let key_kind = self.key_kind;
        self.body.chunks_exact(self.row_bytes()).map(move |row| {
            let (key, value) = row.split_at(key_kind.bytes());
            let (floats, _) = value.as_chunks::<FLOAT_BYTES>();
            (key_kind.decode_one(key), floats.iter().map(|float| f32::from_le_bytes(*float)))
        })
    }

    fn row_bytes(&self) -> usize {
        self.key_kind.bytes() + self.value_bytes
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests;
