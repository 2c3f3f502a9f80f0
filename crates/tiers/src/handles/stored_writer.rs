//! Writes a new file of known length in large pieces, several at once.
//!
//! It gathers what it is given; threads of its own write while the caller computes the next. An
//! error of theirs is the error of a later call, at the latest of [`StoredWriter::finish`], which
//! alone makes the file whole and durable.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::direct_file::{AlignedBuffer, BLOCK_BYTES, PIECE_BYTES, THREADS, open_direct};

pub struct StoredWriter {
    file: Arc<File>,
    file_bytes: u64,
    /// Where the piece that is being filled begins.
    offset: u64,
    piece: AlignedBuffer,
    filled: usize,
    piece_bytes: usize,
    /// One for each thread, in turns.
    threads: Vec<(Sender<Piece>, JoinHandle<()>)>,
    turn: usize,
    written: Receiver<(AlignedBuffer, io::Result<()>)>,
    /// Pieces that were sent and have not come back.
    under_way: usize,
}

struct Piece {
    buffer: AlignedBuffer,
    bytes: usize,
    offset: u64,
}

impl StoredWriter {
    /// Makes the file and takes its room on the disk.
    pub fn create(path: &Path, file_bytes: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = Arc::new(open_direct(&options, path)?);
        take_room(&file, file_bytes)?;
        let piece_bytes = PIECE_BYTES.min(usize::try_from(file_bytes).unwrap_or(PIECE_BYTES));
        let pieces = file_bytes.div_ceil(PIECE_BYTES as u64).min(THREADS as u64);
        let (done, written) = channel();
        let mut threads = Vec::new();
        for _ in 0..pieces {
            let (sender, pieces) = channel::<Piece>();
            let (file, done) = (file.clone(), done.clone());
            let builder = std::thread::Builder::new().name("handle-write".to_owned());
            let thread = builder.spawn(move || {
                for Piece { buffer, bytes, offset } in pieces {
                    let result = file.write_all_at(&buffer.bytes()[..bytes], offset);
                    // Nobody waits for it once the writer was dropped.
                    let _ = done.send((buffer, result));
                }
            })?;
            threads.push((sender, thread));
        }
        Ok(StoredWriter {
            file,
            file_bytes,
            offset: 0,
            piece: AlignedBuffer::new(piece_bytes),
            filled: 0,
            piece_bytes,
            threads,
            turn: 0,
            written,
            under_way: 0,
        })
    }

    /// Writes the rest, and makes all of it survive a power cut.
    pub fn finish(mut self) -> io::Result<()> {
        // Direct access writes whole blocks; what is over is cut off.
        let bytes = self.filled.next_multiple_of(BLOCK_BYTES);
        self.piece.bytes_mut()[self.filled..bytes].fill(0);
        if bytes > 0 {
            self.send(bytes);
        }
        while self.under_way > 0 {
            self.take_back()?;
        }
        self.file.set_len(self.file_bytes)?;
        self.file.sync_all()
    }

    /// Hands the piece to a thread. There is none to fill before [`take_back`](Self::take_back) or
    /// a new one.
    fn send(&mut self, bytes: usize) {
        let buffer = std::mem::replace(&mut self.piece, AlignedBuffer::new(0));
        let piece = Piece { buffer, bytes, offset: self.offset };
        let (sender, _) = &self.threads[self.turn % self.threads.len()];
        sender.send(piece).expect("threads end after their writer");
        self.turn += 1;
        self.under_way += 1;
        self.offset += bytes as u64;
        self.filled = 0;
    }

    fn take_back(&mut self) -> io::Result<()> {
        let (buffer, result) = self.written.recv().expect("threads end after their writer");
        self.under_way -= 1;
        self.piece = buffer;
        result
    }

    fn next_piece(&mut self) -> io::Result<()> {
        self.send(self.piece.bytes().len());
        if self.under_way <= THREADS {
            self.piece = AlignedBuffer::new(self.piece_bytes);
            return Ok(());
        }
        self.take_back()
    }
}

impl Write for StoredWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = &mut self.piece.bytes_mut()[self.filled..];
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.filled += count;
        if self.filled == self.piece.bytes().len() {
            self.next_piece()?;
        }
        Ok(count)
    }

    /// Nothing: what is durable is decided by [`StoredWriter::finish`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for StoredWriter {
    fn drop(&mut self) {
        for (sender, thread) in self.threads.drain(..) {
            drop(sender);
            // A thread that panicked has said so, and its piece is missing.
            let _ = thread.join();
        }
    }
}

/// So that a full disk is known at once, and writes do not wait for blocks one by one.
fn take_room(file: &File, bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO)) => Err(error.into()),
        // Not every file system can; then the writes say what is wrong.
        _ => Ok(()),
    }
}
