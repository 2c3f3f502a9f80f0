//! The directory of a page file: which record lies in which frame, as it survives the process.
//!
//! A file of 64-byte entries, numbers little-endian. The first is the header:
//!
//! | offset | bytes | what |
//! |---:|---:|---|
//! | 0 | 8 | magic, `TERRDIRY` |
//! | 8 | 8 | version of this format, 1 |
//! | 16 | 8 | bytes of a record |
//! | 24 | 32 | zero |
//! | 56 | 8 | XXH3-64 of the bytes before, seed 0 |
//!
//! Entry `1 + n` is about frame `n`. All zero is a free frame, otherwise:
//!
//! | offset | bytes | what |
//! |---:|---:|---|
//! | 0 | 32 | content key |
//! | 32 | 8 | sequence, larger in records that were written later |
//! | 40 | 8 | when it expires, milliseconds since 1970; all ones: never |
//! | 48 | 8 | priority |
//! | 56 | 8 | XXH3-64 of the bytes before, with seed `1 + n` |
//!
//! An entry is a claim: after a power cut it may be older or newer than its frame. Records have
//! their key and a checksum of their own, which decide. A header of another version or another
//! length of records makes the file an empty one. What was damaged while the file was in use is
//! written again when the tier is synced, as it is at the end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use terrace_cache::PageKey;
use terrace_cache::placement::Retention;
use twox_hash::XxHash3_64;

use super::frame_space::{FrameId, Known};
use super::io_fault::io_fault;
use crate::tier_error::TierError;

/// Of the header, and of each frame beside its own.
pub const ENTRY_BYTES: u64 = 64;

const MAGIC: [u8; 8] = *b"TERRDIRY";
const VERSION: u64 = 1;
const NEVER: u64 = u64::MAX;

type Entry = [u8; ENTRY_BYTES as usize];

const FREE: Entry = [0; ENTRY_BYTES as usize];

pub struct DirectoryFile {
    path: PathBuf,
    file: File,
    header: Entry,
}

/// What a directory said when it was opened.
pub struct Listed {
    /// For each frame.
    pub frames: Vec<Option<Known>>,
    /// Whether the file was begun anew, so that nothing in the frames means anything.
    pub is_new: bool,
}

impl DirectoryFile {
    /// Opens or begins the directory. Entries that are damaged are cleared.
    pub fn open(path: PathBuf, record_bytes: usize) -> Result<(Self, Listed), TierError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(io_fault("cannot open", &path))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io_fault("cannot read", &path))?;
        let header = header(record_bytes);
        let directory = DirectoryFile { path, file, header };
        let (entries, _torn) = bytes.as_chunks::<{ ENTRY_BYTES as usize }>();
        if entries.first() != Some(&header) {
            directory.set_bytes(0)?;
            directory.write(0, &header)?;
            return Ok((directory, Listed { frames: Vec::new(), is_new: true }));
        }
        let mut frames = Vec::with_capacity(entries.len() - 1);
        for (index, entry) in entries.iter().enumerate().skip(1) {
            let known = known(index as u64, entry);
            if known.is_none() && *entry != FREE {
                directory.write(index as u64, &FREE)?;
            }
            frames.push(known);
        }
        Ok((directory, Listed { frames, is_new: false }))
    }

    pub fn set(&self, frame: FrameId, known: &Known) -> Result<(), TierError> {
        let index = 1 + u64::from(frame.0);
        self.write(index, &entry(index, known))
    }

    /// Writes all of it, whatever happened to the file meanwhile: without its entry a record would
    /// be lost, and without the header all of them.
    pub fn write_all<'k>(
        &self,
        frames: impl Iterator<Item = Option<&'k Known>>,
    ) -> Result<(), TierError> {
        let entries = (1..).zip(frames).flat_map(|(index, known)| match known {
            Some(known) => entry(index, known),
            None => FREE,
        });
        let bytes: Vec<u8> = self.header.into_iter().chain(entries).collect();
        self.file.write_all_at(&bytes, 0).map_err(io_fault("cannot write", &self.path))?;
        self.set_bytes(bytes.len() as u64)
    }

    pub fn clear(&self, frame: FrameId) -> Result<(), TierError> {
        self.write(1 + u64::from(frame.0), &FREE)
    }

    /// Drops the entries of all frames from `frames` on.
    pub fn truncate(&self, frames: usize) -> Result<(), TierError> {
        self.set_bytes((1 + frames as u64) * ENTRY_BYTES)
    }

    pub fn sync(&self) -> Result<(), TierError> {
        self.file.sync_data().map_err(io_fault("cannot sync", &self.path))
    }

    /// The time of the file is when the tier was last used.
    pub fn touch(&self) -> io::Result<()> {
        self.file.set_modified(SystemTime::now())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn set_bytes(&self, bytes: u64) -> Result<(), TierError> {
        self.file.set_len(bytes).map_err(io_fault("cannot truncate", &self.path))
    }

    fn write(&self, index: u64, entry: &Entry) -> Result<(), TierError> {
        let written = self.file.write_all_at(entry, index * ENTRY_BYTES);
        written.map_err(io_fault("cannot write", &self.path))
    }
}

fn header(record_bytes: usize) -> Entry {
    let mut header = FREE;
    header[..8].copy_from_slice(&MAGIC);
    header[8..16].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&(record_bytes as u64).to_le_bytes());
    sealed(0, header)
}

fn entry(index: u64, known: &Known) -> Entry {
    let mut entry = FREE;
    entry[..32].copy_from_slice(known.key.as_bytes());
    entry[32..40].copy_from_slice(&known.sequence.to_le_bytes());
    let expires_ms = known.retention.expires_ms.unwrap_or(NEVER);
    entry[40..48].copy_from_slice(&expires_ms.to_le_bytes());
    entry[48] = known.retention.priority;
    sealed(index, entry)
}

fn known(index: u64, entry: &Entry) -> Option<Known> {
    if sealed(index, *entry) != *entry || entry[48] > Retention::MAX_PRIORITY {
        return None;
    }
    let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("8 bytes"));
    let expires_ms = Some(number(40)).filter(|&at| at != NEVER);
    let key = PageKey::from_bytes(entry[..32].try_into().expect("32 bytes"));
    let retention = Retention { priority: entry[48], expires_ms };
    Some(Known { key, sequence: number(32), retention })
}

/// The entry with its checksum.
fn sealed(index: u64, mut entry: Entry) -> Entry {
    let checksum = XxHash3_64::oneshot_with_seed(index, &entry[..56]);
    entry[56..].copy_from_slice(&checksum.to_le_bytes());
    entry
}
