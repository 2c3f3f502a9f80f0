//! The lines of a file, one after the other, in memory that does not grow with them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::dataset_error::DatasetError;

const READ_BYTES: usize = 1 << 20;
/// A row of a log has some hundred bytes.
const LINE_BYTES_MAX: usize = 1 << 20;

pub struct LineReader {
    path: PathBuf,
    file: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
}

impl LineReader {
    pub fn open(path: &Path) -> Result<Self, DatasetError> {
        let file = File::open(path).map_err(DatasetError::io("open", path))?;
        Ok(LineReader {
            path: path.to_owned(),
            file: BufReader::with_capacity(READ_BYTES, file),
            line: Vec::new(),
            number: 0,
            bytes: 0,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Of the line that was read last, from 1 on.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line that is not empty, without its end.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, DatasetError> {
        loop {
            self.line.clear();
            let mut limited = (&mut self.file).take(LINE_BYTES_MAX as u64);
            let read = limited.read_until(b'\n', &mut self.line);
            let read = read.map_err(DatasetError::io("read", &self.path))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += read as u64;
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            } else if read == LINE_BYTES_MAX {
                let (path, line) = (self.path.clone(), self.number);
                return Err(DatasetError::LongLine { path, line, most: LINE_BYTES_MAX });
            }
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
            if !self.line.is_empty() {
                return Ok(Some(&self.line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, DatasetError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut reader = LineReader::open(file.path())?;
        let mut lines = Vec::new();
        while let Some(line) = reader.next_line()?.map(<[u8]>::to_vec) {
            lines.push((reader.number(), line));
        }
        assert_eq!(reader.bytes(), text.len() as u64);
        Ok(lines)
    }

    #[test]
    fn ends_and_empty_lines() {
        let found = lines(b"a\r\n\n\r\nb\nlast").unwrap();
        let wanted: Vec<(u64, Vec<u8>)> =
            vec![(1, b"a".to_vec()), (4, b"b".to_vec()), (5, b"last".to_vec())];
        assert_eq!(found, wanted);
        assert!(lines(b"").unwrap().is_empty());
    }

    #[test]
    fn a_line_without_an_end_is_refused_and_not_read_whole() {
        let error = lines(&vec![b'x'; LINE_BYTES_MAX + 5]).unwrap_err();
        assert!(error.to_string().contains("line 1: longer than 1048576 bytes"), "{error}");
        assert_eq!(lines(&vec![b'x'; LINE_BYTES_MAX - 1]).unwrap().len(), 1);
    }
}
