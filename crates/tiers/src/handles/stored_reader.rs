//! Reads a file from its start in large pieces, several at once and ahead of the caller.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::direct_file::{AlignedBuffer, BLOCK_BYTES, PIECE_BYTES, THREADS, open_direct};

/// What a thread has ready beyond the piece that the caller takes bytes from.
const PIECES_AHEAD: usize = 2;

/// Thread `i` of `n` reads pieces `i`, `i + n`, `i + 2 n` and so on.
pub struct StoredReader {
    threads: Vec<PieceThread>,
    /// Of the next piece.
    turn: usize,
    piece: Option<(AlignedBuffer, usize)>,
    /// Bytes of the piece that were given.
    given: usize,
}

struct PieceThread {
    empty: Option<Sender<AlignedBuffer>>,
    full: Receiver<io::Result<(AlignedBuffer, usize)>>,
    thread: Option<JoinHandle<()>>,
}

impl StoredReader {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = Arc::new(open_direct(OpenOptions::new().read(true), path)?);
        let file_bytes = file.metadata()?.len();
        let pieces = file_bytes.div_ceil(PIECE_BYTES as u64);
        let count = pieces.min(THREADS as u64);
        let piece_bytes = PIECE_BYTES.min(usize::try_from(file_bytes).unwrap_or(PIECE_BYTES));
        let threads = (0..count).map(|first| {
            let offsets = (first..pieces).step_by(count as usize);
            let offsets = offsets.map(|piece| piece * PIECE_BYTES as u64);
            PieceThread::start(file.clone(), offsets, piece_bytes)
        });
        let threads = threads.collect::<io::Result<_>>()?;
        Ok(StoredReader { threads, turn: 0, piece: None, given: 0 })
    }

    /// The next piece takes the place of the one that was given. `false` at the end.
    fn next_piece(&mut self) -> io::Result<bool> {
        let count = self.threads.len();
        if let Some((buffer, _)) = self.piece.take() {
            self.threads[(self.turn - 1) % count].give(buffer);
        }
        if count == 0 {
            return Ok(false);
        }
        // A thread ends after its last piece: then there are no more.
        let Ok(piece) = self.threads[self.turn % count].full.recv() else { return Ok(false) };
        self.piece = Some(piece?);
        self.turn += 1;
        self.given = 0;
        Ok(true)
    }
}

impl Read for StoredReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((buffer, filled)) = &self.piece
                && (self.given < *filled || bytes.is_empty())
            {
                let count = bytes.len().min(filled - self.given);
                bytes[..count].copy_from_slice(&buffer.bytes()[self.given..][..count]);
                self.given += count;
                return Ok(count);
            }
            if !self.next_piece()? {
                return Ok(0);
            }
        }
    }
}

impl PieceThread {
    fn start(
        file: Arc<File>,
        offsets: impl Iterator<Item = u64> + Send + 'static,
        piece_bytes: usize,
    ) -> io::Result<Self> {
        let (empty, empties) = channel::<AlignedBuffer>();
        let (done, full) = channel();
        let builder = std::thread::Builder::new().name("handle-read".to_owned());
        let thread = builder.spawn(move || {
            for offset in offsets {
                let Ok(mut buffer) = empties.recv() else { return };
                let read = read_piece(&file, buffer.bytes_mut(), offset);
                if done.send(read.map(|filled| (buffer, filled))).is_err() {
                    return;
                }
            }
        })?;
        let started = PieceThread { empty: Some(empty), full, thread: Some(thread) };
        (0..PIECES_AHEAD).for_each(|_| started.give(AlignedBuffer::new(piece_bytes)));
        Ok(started)
    }

    fn give(&self, buffer: AlignedBuffer) {
        if let Some(empty) = &self.empty {
            // A thread that has read its last piece needs none.
            let _ = empty.send(buffer);
        }
    }
}

impl Drop for PieceThread {
    fn drop(&mut self) {
        self.empty = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so, and its pieces are missing.
            let _ = thread.join();
        }
    }
}

/// Fills the buffer, or what the file has for it.
fn read_piece(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(count) => {
                filled += count;
                // What is not a whole block is the file's end, where direct access cannot go on.
                if count == 0 || !count.is_multiple_of(BLOCK_BYTES) {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
