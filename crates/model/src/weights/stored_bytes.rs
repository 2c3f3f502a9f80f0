//! The bytes of a tensor, row by row: a part of a mapped file, or memory of their own.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::{Buffer, HostMap};

use crate::error::Error;

#[derive(Clone)]
pub enum StoredBytes {
    Mapped { map: Arc<HostMap>, range: Range<usize> },
    Owned(Arc<Buffer>),
}

impl StoredBytes {
    pub fn mapped(map: &Arc<HostMap>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= map.len(), "range outside the file");
        StoredBytes::Mapped { map: Arc::clone(map), range }
    }

    /// Memory that `fill` writes.
    pub fn filled(bytes: usize, fill: impl FnOnce(&mut [u8])) -> Result<Self, Error> {
        let mut buffer = Buffer::zeroed(bytes, "weights")?;
        fill(buffer.bytes_mut());
        Ok(StoredBytes::Owned(Arc::new(buffer)))
    }

    pub fn buffer(&self) -> Arc<Buffer> {
        match self {
            StoredBytes::Mapped { map, range } => {
                Arc::new(Buffer::mapped(Arc::clone(map), range.clone()))
            }
            StoredBytes::Owned(buffer) => Arc::clone(buffer),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            StoredBytes::Mapped { map, range } => &map.bytes()[range.clone()],
            StoredBytes::Owned(buffer) => buffer.bytes(),
        }
    }

    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// A part of them; of a mapped file it is not copied.
    pub fn part(&self, part: Range<usize>) -> Result<Self, Error> {
        match self {
            StoredBytes::Mapped { map, range } => {
                assert!(part.end <= range.len(), "a part outside the bytes");
                Ok(Self::mapped(map, range.start + part.start..range.start + part.end))
            }
            StoredBytes::Owned(buffer) => {
                Self::filled(part.len(), |to| to.copy_from_slice(&buffer.bytes()[part]))
            }
        }
    }
}
