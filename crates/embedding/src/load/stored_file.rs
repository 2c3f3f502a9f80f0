//! A file that can be read anywhere, on a disk or in an object store.

use std::io;

pub trait StoredFile: Send + Sync {
    /// For messages.
    fn path(&self) -> &str;

    fn bytes(&self) -> u64;

    /// When it was last written, in milliseconds since 1970.
    fn modified_ms(&self) -> u64;

    /// What tells this version of the file from others, where the store has such a thing.
    fn tag(&self) -> Option<&str> {
        None
    }

    /// Fills `to` with the bytes from `offset` on; fewer are an error.
    fn read_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()>;
}
