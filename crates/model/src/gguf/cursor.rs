//! Reads little-endian values from bytes that are not trusted.

/// A location in the bytes. Reading past the end is an error that says where.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    /// The byte that is read next.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let left = &self.bytes[self.at..];
        let taken = left.get(..count).ok_or_else(|| {
            format!("wanted {count} bytes at byte {}, but {} are left", self.at, left.len())
        })?;
        self.at += count;
        Ok(taken)
    }

    pub fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    /// How many things of at least `least_bytes` follow; an error when they cannot all be there.
    pub fn count(&mut self, least_bytes: usize, what: &str) -> Result<usize, String> {
        let count = self.u64()?;
        let left = self.bytes.len() - self.at;
        usize::try_from(count).ok().filter(|&count| count <= left / least_bytes).ok_or_else(|| {
            format!("{count} {what} at byte {} do not fit in the {left} bytes left", self.at)
        })
    }

    pub fn str(&mut self) -> Result<&'a str, String> {
        let start = self.at;
        let length = self.count(1, "bytes of text")?;
        std::str::from_utf8(self.take(length)?)
            .map_err(|error| format!("text at byte {start} is not UTF-8: {error}"))
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N).map(|bytes| bytes.try_into().expect("N bytes were taken"))
    }
}
