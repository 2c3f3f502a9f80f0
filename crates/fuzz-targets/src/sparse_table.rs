//! The files of a trained table, in memory and on a disk.
//!
//! An input is a header and the files' bytes behind each other. Its numbers, little-endian: the
//! width that a configuration says (8 bytes, 0 for none), the bytes that `key` and `emb_vector`
//! claim to have (8 each, 0 for those that they have), the bytes of `key`, `slot_id` and `meta`
//! (2 each, the largest number for a file that is not there), and the rows of a batch (2; an odd
//! number puts the files on a disk too). What is left is `emb_vector`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use terrace_embedding::{
    KeyKind, LoadError, SparseBatch, SparseFolder, StoredFile, VersionStamp, content_hash,
};

use crate::files;

const KEY_BYTES: usize = 8;
const NUMBER_BYTES: usize = 4;
const ABSENT: u16 = u16::MAX;
/// Memory for rows that are read at once, unless one row takes more.
const BATCH_BYTES: usize = 1 << 16;
const BATCHES_MOST: u64 = 100;

/// As it is, and with as many keys as there are rows for, without claims: little else is opened.
pub fn run(input: &[u8]) -> bool {
    let Some(table) = Table::cut(input) else { return false };
    let accepted = table.read();
    table.mended().is_some_and(|mended| mended.read()) || accepted
}

struct Table<'a> {
    dim: Option<usize>,
    keys: Content,
    rows: Content,
    /// `slot_id` and `meta`, where they are there.
    beside: [Option<&'a [u8]>; 2],
    batch_rows: usize,
    is_on_disk: bool,
}

/// A file in memory, which may claim to be longer or shorter than it is.
#[derive(Clone)]
struct Content {
    path: &'static str,
    bytes: Arc<[u8]>,
    claimed: u64,
}

impl StoredFile for Content {
    fn path(&self) -> &str {
        self.path
    }

    fn bytes(&self) -> u64 {
        self.claimed
    }

    fn modified_ms(&self) -> u64 {
        7
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(to.len() as u64).filter(|end| *end <= self.claimed);
        assert!(end.is_some(), "{} bytes at {offset} of {}", to.len(), self.claimed);
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let found = self.bytes.get(start..).and_then(|rest| rest.get(..to.len()));
        to.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Content {
    fn new(path: &'static str, bytes: &[u8], claimed: u64) -> Self {
        let claimed = if claimed == 0 { bytes.len() as u64 } else { claimed };
        Content { path, bytes: bytes.into(), claimed }
    }

    fn is_honest(&self) -> bool {
        self.claimed == self.bytes.len() as u64
    }
}

impl<'a> Table<'a> {
    /// Lengths beyond the input's end are cut.
    fn cut(input: &'a [u8]) -> Option<Self> {
        let (wide, rest) = input.split_first_chunk::<24>()?;
        let (narrow, mut rest) = rest.split_first_chunk::<8>()?;
        let wide = wide.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let narrow = narrow.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        let [dim, key_claim, row_claim] = wide.collect::<Vec<_>>()[..] else { return None };
        let [keys, slots, meta, batch] = narrow.collect::<Vec<_>>()[..] else { return None };
        let mut next = |length: u16| {
            let (file, after) = rest.split_at(usize::from(length).min(rest.len()));
            rest = after;
            file
        };
        let keys = next(keys);
        let beside = [slots, meta].map(|length| (length != ABSENT).then(|| next(length)));
        Some(Table {
            dim: usize::try_from(dim).ok().filter(|dim| *dim > 0),
            keys: Content::new("key", keys, key_claim),
            rows: Content::new("emb_vector", rest, row_claim),
            beside,
            batch_rows: usize::from(batch).max(1),
            is_on_disk: batch % 2 == 1,
        })
    }

    fn mended(&self) -> Option<Table<'a>> {
        let keys = self.keys.bytes.len() / KEY_BYTES;
        let row_bytes = self.rows.bytes.len().checked_div(keys)? / NUMBER_BYTES * NUMBER_BYTES;
        let cut = |file: &Content, bytes| Content::new(file.path, &file.bytes[..bytes], 0);
        let beside_bytes = keys * KEY_BYTES;
        Some(Table {
            dim: None,
            keys: cut(&self.keys, keys * KEY_BYTES),
            rows: cut(&self.rows, keys * row_bytes),
            beside: self.beside.map(|file| file.and_then(|file| file.get(..beside_bytes))),
            ..*self
        })
    }

    fn read(&self) -> bool {
        if self.is_on_disk {
            self.read_on_disk();
        }
        let (keys, rows) = (Box::new(self.keys.clone()), Box::new(self.rows.clone()));
        let Ok(folder) = SparseFolder::new("memory".to_owned(), keys, rows, self.dim) else {
            return false;
        };
        let (count, dim) = (u128::from(folder.count()), folder.dim() as u128);
        assert_eq!(count * KEY_BYTES as u128, u128::from(self.keys.claimed));
        assert_eq!(count * dim * NUMBER_BYTES as u128, u128::from(self.rows.claimed));
        assert!(self.dim.is_none_or(|dim| dim == folder.dim()));
        for kind in [KeyKind::U32, KeyKind::I64] {
            self.read_batches(&folder, kind);
        }
        let is_honest = self.keys.is_honest() && self.rows.is_honest();
        let folders = [folder];
        let hash = content_hash(&folders, &mut |_| ());
        let claimed = |file: &Content| format!("{}@7", file.claimed);
        let stamp = [claimed(&self.keys), claimed(&self.rows)].join("+");
        assert_eq!(VersionStamp::of(&folders).text, stamp);
        assert!(hash.is_ok() || !is_honest);
        is_honest
    }

    /// From the start in batches, then around the end and far behind it.
    fn read_batches(&self, folder: &SparseFolder, kind: KeyKind) {
        let row_bytes = KEY_BYTES + folder.dim() * NUMBER_BYTES;
        let most = self.batch_rows.min(BATCH_BYTES / row_bytes).max(1);
        let mut batch = SparseBatch::default();
        let mut start = 0;
        for _ in 0..BATCHES_MOST {
            if start >= folder.count() || !self.read_batch(folder, kind, (start, most), &mut batch)
            {
                break;
            }
            start += batch.keys.len() as u64;
        }
        for start in [folder.count() - 1, folder.count(), folder.count() + 1, u64::MAX] {
            self.read_batch(folder, kind, (start, most), &mut batch);
        }
    }

    /// Whether there is more to read. A batch is what the bytes say, or why they are no batch.
    fn read_batch(
        &self,
        folder: &SparseFolder,
        kind: KeyKind,
        (start, most): (u64, usize),
        batch: &mut SparseBatch,
    ) -> bool {
        let rows = folder.count().saturating_sub(start).min(most as u64) as usize;
        let row_bytes = folder.dim() * NUMBER_BYTES;
        let keys = window(&self.keys.bytes, start, rows, KEY_BYTES);
        let floats = window(&self.rows.bytes, start, rows, row_bytes);
        let found = folder.read(start, most, kind, batch);
        let (Some(keys), Some(floats)) = (keys, floats) else {
            assert!(matches!(found, Err(LoadError::File { .. })), "{found:?}");
            return false;
        };
        let mut wanted = Vec::new();
        KeyKind::I64.decode(keys, &mut wanted).expect("whole keys");
        let fits = wanted.iter().all(|key| kind.contains(*key));
        match found {
            Ok(()) => assert!(fits),
            Err(LoadError::Key { .. }) if !fits => return false,
            Err(error) => panic!("{error}"),
        }
        assert_eq!(batch.keys, wanted);
        let read = batch.rows.iter().flat_map(|number| number.to_le_bytes());
        assert!(read.eq(floats.iter().copied()), "rows of {start}..{}", start + rows as u64);
        true
    }

    /// The bytes are those in memory, and nobody lies about their number.
    fn read_on_disk(&self) {
        let mut on_disk = vec![("key", &*self.keys.bytes), ("emb_vector", &*self.rows.bytes)];
        for (name, file) in ["slot_id", "meta"].into_iter().zip(self.beside) {
            on_disk.extend(file.map(|file| (name, file)));
        }
        let folder = files::folder(&on_disk);
        let opened = SparseFolder::open(folder.path(), self.dim);
        let honest = |file: &Content| Box::new(Content::new(file.path, &file.bytes, 0));
        let (keys, rows) = (honest(&self.keys), honest(&self.rows));
        let in_memory = SparseFolder::new(String::new(), keys, rows, self.dim);
        let key_bytes = self.keys.bytes.len();
        let is_beside_right = self.beside.iter().flatten().all(|file| file.len() == key_bytes);
        assert_eq!(opened.is_ok(), in_memory.is_ok() && is_beside_right, "{:?}", opened.err());
        if let (Ok(opened), Ok(in_memory)) = (opened, in_memory) {
            assert_same_content(opened, in_memory, folder.path());
        }
    }
}

fn assert_same_content(opened: SparseFolder, in_memory: SparseFolder, path: &Path) {
    assert_eq!(opened.folder(), path.display().to_string());
    assert_eq!((opened.count(), opened.dim()), (in_memory.count(), in_memory.dim()));
    let hashes = [opened, in_memory].map(|folder| content_hash(&[folder], &mut |_| ()).ok());
    assert_eq!(hashes[0], hashes[1]);
    assert!(hashes[0].is_some());
}

/// So many items from `start` on, if all of them are there.
fn window(bytes: &[u8], start: u64, items: usize, item_bytes: usize) -> Option<&[u8]> {
    if items == 0 {
        return Some(&[]);
    }
    let start = usize::try_from(start).ok()?.checked_mul(item_bytes)?;
    bytes.get(start..)?.get(..items * item_bytes)
}
