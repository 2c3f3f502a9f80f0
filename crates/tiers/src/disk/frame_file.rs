//! The file of frames: whole frames are read and written, around the system's page cache.
//!
//! Host memory above is a cache already, so a second one in the kernel would cost memory and a
//! copy for nothing, and written pages would pile up there until all writers wait. Where a file
//! system has no direct access the cache is used; nothing else changes.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Mutex;

use super::frame_space::FrameId;
use super::io_fault::io_fault;
use crate::tier_error::TierError;

/// Direct access begins and ends at such bytes of the file and of memory.
const BLOCK_BYTES: usize = 4096;

/// The bytes of a frame for records of `record_bytes` each.
pub fn frame_bytes(record_bytes: usize) -> usize {
    record_bytes.next_multiple_of(BLOCK_BYTES)
}

pub struct FrameFile {
    path: PathBuf,
    file: File,
    record_bytes: usize,
    /// One for each thread that has ever read or written at the same time.
    buffers: Mutex<Vec<FrameBuffer>>,
}

/// What a frame held when it was read.
pub enum FrameRead {
    Record(FrameBuffer),
    /// The file ends before the frame does.
    BehindTheEnd,
}

/// Memory for one frame, aligned for direct access.
pub struct FrameBuffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl FrameFile {
    /// Opens or makes the file; `is_new` empties it.
    pub fn open(path: PathBuf, record_bytes: usize, is_new: bool) -> Result<Self, TierError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(is_new);
        let direct = options.clone().custom_flags(DIRECT).open(&path);
        let file = match direct {
            Err(error) if error.kind() == ErrorKind::InvalidInput => options.open(&path),
            other => other,
        };
        let file = file.map_err(io_fault("cannot open", &path))?;
        Ok(FrameFile { path, file, record_bytes, buffers: Mutex::default() })
    }

    pub fn whole_frames(&self) -> Result<usize, TierError> {
        Ok((self.bytes()? / self.frame_bytes()) as usize)
    }

    pub fn read(&self, frame: FrameId) -> Result<FrameRead, TierError> {
        let mut buffer = self.take_buffer();
        match self.file.read_exact_at(buffer.frame_mut(), self.offset(frame)) {
            Ok(()) => Ok(FrameRead::Record(buffer)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.give_back(buffer);
                Ok(FrameRead::BehindTheEnd)
            }
            Err(error) => Err(io_fault("cannot read", &self.path)(error)),
        }
    }

    pub fn write(&self, frame: FrameId, record: &[u8]) -> Result<(), TierError> {
        let mut buffer = self.take_buffer();
        buffer.frame_mut()[..self.record_bytes].copy_from_slice(record);
        let written = self.file.write_all_at(buffer.frame_mut(), self.offset(frame));
        self.give_back(buffer);
        written.map_err(io_fault("cannot write", &self.path))
    }

    /// The record in a frame that was read.
    pub fn record<'a>(&self, buffer: &'a FrameBuffer) -> &'a [u8] {
        &buffer.memory[buffer.start..][..self.record_bytes]
    }

    pub fn give_back(&self, buffer: FrameBuffer) {
        self.buffers.lock().expect("nobody panics with it").push(buffer);
    }

    /// Drops what the file has behind its first `frames`.
    pub fn truncate(&self, frames: usize) -> Result<(), TierError> {
        let bytes = frames as u64 * self.frame_bytes();
        if self.bytes()? <= bytes {
            return Ok(());
        }
        self.file.set_len(bytes).map_err(io_fault("cannot truncate", &self.path))
    }

    pub fn sync(&self) -> Result<(), TierError> {
        self.file.sync_data().map_err(io_fault("cannot sync", &self.path))
    }

    fn bytes(&self) -> Result<u64, TierError> {
        let metadata = self.file.metadata().map_err(io_fault("cannot look at", &self.path))?;
        Ok(metadata.len())
    }

    fn take_buffer(&self) -> FrameBuffer {
        let buffer = self.buffers.lock().expect("nobody panics with it").pop();
        buffer.unwrap_or_else(|| FrameBuffer::new(frame_bytes(self.record_bytes)))
    }

    fn frame_bytes(&self) -> u64 {
        frame_bytes(self.record_bytes) as u64
    }

    fn offset(&self, frame: FrameId) -> u64 {
        u64::from(frame.0) * self.frame_bytes()
    }
}

impl FrameBuffer {
    fn new(bytes: usize) -> Self {
        let memory = vec![0; bytes + BLOCK_BYTES];
        let start = memory.as_ptr().addr().next_multiple_of(BLOCK_BYTES) - memory.as_ptr().addr();
        FrameBuffer { memory, start, bytes }
    }

    fn frame_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.bytes]
    }
}

#[cfg(target_os = "linux")]
const DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits().cast_signed();
#[cfg(not(target_os = "linux"))]
const DIRECT: i32 = 0;
