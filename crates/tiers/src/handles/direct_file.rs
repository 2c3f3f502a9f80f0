//! Files that are read and written around the system's page cache, and memory that suits them.
//!
//! Handles are large and used once, so a copy in the kernel would cost memory and half the disk's
//! speed. Where a file system has no direct access its cache is used; nothing else changes.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Direct access begins and ends at such bytes of the file and of memory.
pub const BLOCK_BYTES: usize = 4096;

/// What is read or written at once: one request to the disk.
pub const PIECE_BYTES: usize = 2 << 20;

/// Of one file: a disk needs several requests at once to reach its speed.
pub const THREADS: usize = 4;

pub fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<File> {
    match options.clone().custom_flags(DIRECT).open(path) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => options.open(path),
        other => other,
    }
}

/// Memory of whole blocks, aligned as one.
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl AlignedBuffer {
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(BLOCK_BYTES);
        let memory = vec![0; bytes + BLOCK_BYTES];
        let start = memory.as_ptr().addr().next_multiple_of(BLOCK_BYTES) - memory.as_ptr().addr();
        AlignedBuffer { memory, start, bytes }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.bytes]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.bytes]
    }
}

#[cfg(target_os = "linux")]
const DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits().cast_signed();
#[cfg(not(target_os = "linux"))]
const DIRECT: i32 = 0;
