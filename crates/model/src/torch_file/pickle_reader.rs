//! The bytes of a pickle, taken from the front.

use super::pickle_error::PickleError;

pub struct PickleReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A text of a pickle is a name or a setting.
const TEXT_BYTES_MOST: usize = 1 << 20;

impl<'a> PickleReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        PickleReader { bytes, at: 0 }
    }

    /// The next byte's number.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], PickleError> {
        let taken = self.bytes[self.at..].get(..count);
        let taken = taken.ok_or(PickleError::Truncated { at: self.bytes.len() })?;
        self.at += count;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("as many bytes as were asked for"))
    }

    pub fn byte(&mut self) -> Result<u8, PickleError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A length of 1, 4 or 8 bytes.
    pub fn length<const N: usize>(&mut self) -> Result<usize, PickleError> {
        let at = self.at;
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&self.array::<N>()?);
        usize::try_from(u64::from_le_bytes(wide)).map_err(|_| PickleError::Truncated { at })
    }

    pub fn text(&mut self, bytes: usize) -> Result<&'a str, PickleError> {
        if bytes > TEXT_BYTES_MOST {
            return Err(PickleError::TooMany { what: "bytes in a text", limit: TEXT_BYTES_MOST });
        }
        let at = self.at;
        str::from_utf8(self.take(bytes)?)
            .map_err(|_| PickleError::Broken { problem: "a text that is not UTF-8".into(), at })
    }

    /// Up to the next line feed, which is taken too.
    pub fn line(&mut self) -> Result<&'a str, PickleError> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or(PickleError::Truncated { at: self.bytes.len() })?;
        let line = self.text(end)?;
        self.at += 1;
        Ok(line)
    }
}
