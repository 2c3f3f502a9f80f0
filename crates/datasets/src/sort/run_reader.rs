//! A run read back, event by event, through a buffer of a fixed size.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::run_code::{EVENT_BYTES_MAX, read_event};
use crate::dataset_error::DatasetError;
use crate::event::Event;

pub struct RunReader {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// What of the buffer is not read yet.
    unread: std::ops::Range<usize>,
    is_at_end: bool,
    before: Event,
}

impl RunReader {
    pub fn open(path: &Path, buffer_bytes: usize) -> Result<Self, DatasetError> {
        Ok(RunReader {
            path: path.to_owned(),
            file: File::open(path).map_err(DatasetError::io("open", path))?,
            buffer: vec![0; buffer_bytes.max(2 * EVENT_BYTES_MAX)],
            unread: 0..0,
            is_at_end: false,
            before: Event::default(),
        })
    }

    #[inline]
    pub fn next_event(&mut self) -> Result<Option<Event>, DatasetError> {
        if self.unread.len() < EVENT_BYTES_MAX && !self.is_at_end {
            self.fill()?;
        }
        if self.unread.is_empty() {
            return Ok(None);
        }
        let Some((event, bytes)) = read_event(&self.buffer[self.unread.clone()], &self.before)
        else {
            let damaged = io::Error::new(io::ErrorKind::InvalidData, "it was changed meanwhile");
            return Err(DatasetError::io("read back", &self.path)(damaged));
        };
        self.unread.start += bytes;
        self.before = event;
        Ok(Some(event))
    }

    fn fill(&mut self) -> Result<(), DatasetError> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        while self.unread.end < self.buffer.len() {
            let read = self.file.read(&mut self.buffer[self.unread.end..]);
            match read.map_err(DatasetError::io("read back", &self.path))? {
                0 => {
                    self.is_at_end = true;
                    break;
                }
                bytes => self.unread.end += bytes,
            }
        }
        Ok(())
    }
}
