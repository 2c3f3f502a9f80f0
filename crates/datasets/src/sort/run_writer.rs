//! A run: sorted events in a file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::run_code::push_event;
use crate::dataset_error::DatasetError;
use crate::event::Event;

const WRITE_BYTES: usize = 256 << 10;

pub struct RunWriter {
    path: PathBuf,
    file: File,
    bytes: Vec<u8>,
    before: Event,
}

impl RunWriter {
    pub fn create(path: PathBuf) -> Result<Self, DatasetError> {
        let file = File::create_new(&path).map_err(DatasetError::io("create", &path))?;
        Ok(RunWriter { path, file, bytes: Vec::new(), before: Event::default() })
    }

    /// The next one by key.
    pub fn push(&mut self, event: &Event) -> Result<(), DatasetError> {
        push_event(&mut self.bytes, event, &self.before);
        self.before = *event;
        if self.bytes.len() < WRITE_BYTES {
            return Ok(());
        }
        self.flush()
    }

    /// The finished run's file.
    pub fn finish(mut self) -> Result<PathBuf, DatasetError> {
        self.flush()?;
        Ok(self.path)
    }

    fn flush(&mut self) -> Result<(), DatasetError> {
        self.file.write_all(&self.bytes).map_err(io_error(&self.path))?;
        self.bytes.clear();
        Ok(())
    }
}

fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> DatasetError {
    DatasetError::io("write", path)
}
