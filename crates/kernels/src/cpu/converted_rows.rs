//! Memory for the rows of one product, converted once for all workers.

use terrace_device::Buffer;

use crate::error::Error;

/// The operating system commits only what is used.
pub(crate) struct ConvertedRows {
    /// bf16, in tiles.
    pub(crate) tiles: Buffer,
    /// int16.
    pub(crate) words: Buffer,
    /// int8, in tiles.
    pub(crate) bytes: Buffer,
}

impl ConvertedRows {
    /// Of each kind: thousands of rows of a small model, 32 of the widest.
    pub(crate) const BYTES: usize = 8 << 20;

    pub(crate) fn new() -> Result<Self, Error> {
        let take = || Buffer::zeroed(Self::BYTES, "converted rows");
        Ok(ConvertedRows { tiles: take()?, words: take()?, bytes: take()? })
    }
}
