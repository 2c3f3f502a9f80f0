//! Where the lines of a file are.

use std::path::Path;

use terrace_device::HostMap;

use super::data_error::DataError;

/// Lines that are not blank, by their number among them.
pub struct LineIndex {
    map: HostMap,
    lines: Vec<Line>,
}

#[derive(Clone, Copy)]
struct Line {
    start: usize,
    end: usize,
    /// In the file, from 1 on.
    number: usize,
}

impl LineIndex {
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let map = HostMap::open(path)
            .map_err(|error| DataError::File { path: path.into(), problem: error.to_string() })?;
        let (mut lines, mut start) = (Vec::new(), 0);
        for (at, line) in map.bytes().split(|byte| *byte == b'\n').enumerate() {
            let end = start + line.len();
            if !line.trim_ascii().is_empty() {
                lines.push(Line { start, end, number: at + 1 });
            }
            start = end + 1;
        }
        Ok(LineIndex { map, lines })
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn line(&self, at: usize) -> &[u8] {
        let line = self.lines[at];
        &self.map.bytes()[line.start..line.end]
    }

    /// In the file, from 1 on.
    pub fn number(&self, at: usize) -> usize {
        self.lines[at].number
    }

    /// The whole file.
    pub fn bytes(&self) -> &[u8] {
        self.map.bytes()
    }
}
