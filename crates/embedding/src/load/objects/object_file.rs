//! A file in an object store, read through a window that is fetched at once.
//!
//! All that is read is of the version that was opened: once the object is changed, reading fails.
//! Calls block one another, and may not be made from a thread that runs async tasks.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::path::Path;

use super::object_bucket::ObjectBucket;
use crate::load::stored_file::StoredFile;

pub struct ObjectFile {
    url: String,
    path: Path,
    bucket: Arc<ObjectBucket>,
    bytes: u64,
    modified_ms: u64,
    e_tag: String,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

/// Of one request: large enough that time goes into bytes and not into questions, and small enough
/// to come within the 30 seconds of a request on slow networks.
const WINDOW_BYTES: u64 = 8 << 20;

impl ObjectFile {
    pub(super) fn open(url: &str, path: Path, bucket: Arc<ObjectBucket>) -> io::Result<Self> {
        let meta = bucket.head(&path)?;
        let e_tag = meta.e_tag.ok_or_else(|| {
            io::Error::other(
                "the object store sends no ETag, and without one a change of the object would go \
                 unseen; use another store, or copy the files to a disk",
            )
        })?;
        Ok(ObjectFile {
            url: url.to_owned(),
            path,
            bucket,
            bytes: meta.size,
            modified_ms: u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or(0),
            e_tag,
            window: Mutex::default(),
        })
    }

    fn fetch(&self, window: &mut Window, start: u64) -> io::Result<()> {
        let range = start..self.bytes.min(start + WINDOW_BYTES);
        let fetched = self.bucket.read(&self.path, &self.e_tag, range, &mut window.bytes);
        if fetched.is_err() {
            window.bytes.clear();
        }
        window.start = start;
        fetched
    }
}

impl StoredFile for ObjectFile {
    fn path(&self) -> &str {
        &self.url
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn modified_ms(&self) -> u64 {
        self.modified_ms
    }

    fn tag(&self) -> Option<&str> {
        Some(&self.e_tag)
    }

    fn read_at(&self, mut offset: u64, mut to: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(to.len() as u64).is_none_or(|end| end > self.bytes) {
            let text = format!("the object has {} bytes", self.bytes);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        while !to.is_empty() {
            let end = window.start + window.bytes.len() as u64;
            if !(window.start..end).contains(&offset) {
                self.fetch(&mut window, offset)?;
            }
            let there = &window.bytes[(offset - window.start) as usize..];
            let (now, later) = to.split_at_mut(there.len().min(to.len()));
            now.copy_from_slice(&there[..now.len()]);
            offset += now.len() as u64;
            to = later;
        }
        if offset == self.bytes {
            // Files of many tables are open at once, and most are read once.
            *window = Window::default();
        }
        Ok(())
    }
}
