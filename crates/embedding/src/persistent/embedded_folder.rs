//! The folder of the embedded store: what is in it, and in which format.
//!
//! | name | what |
//! |---|---|
//! | `terrace.format` | a number: how keys, rows and records lie in fjall's tables |
//! | `lock`, `version`, `*.jnl`, `keyspaces/` | fjall's |
//!
//! Format 1: a keyspace by the tag of each table, keys as 4 or 8 bytes big-endian, rows as numbers
//! little-endian; a keyspace `terrace.records` with the JSON of a table's record by its tag. The
//! number is in a file of its own, so that a folder that is not ours is refused before anything
//! writes to it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::Path;

use terrace_rocksdb::is_rocksdb_folder;
use terrace_tiers::TierError;

use super::folder_fault::folder_fault;

pub const FORMAT: u32 = 1;

const FORMAT_FILE: &str = "terrace.format";
/// fjall writes it last when it makes a database; it begins with these bytes.
const FJALL_VERSION: &str = "version";
const FJALL_MAGIC: &[u8] = b"FJL";
pub const FJALL_LOCK: &str = "lock";
const FIRST_JOURNAL: &str = "0.jnl";

/// Whether the folder is an embedded store's, or one that fjall made for somebody else.
pub fn is_embedded_folder(path: &Path) -> bool {
    path.join(FORMAT_FILE).exists() || is_fjall_folder(path)
}

/// Checks that fjall may open the folder, and makes it where there is none.
pub fn prepare_folder(path: &Path, read_only: bool) -> Result<(), TierError> {
    let shown = path.display();
    if is_rocksdb_folder(path) {
        return Err(TierError::Protocol(format!(
            "embedded: {shown} is a folder of RocksDB; install it (Debian 12: apt-get install \
             librocksdb7.8, Fedora: dnf install rocksdb, macOS: brew install rocksdb) and set type \
             to rocksdb, or copy the tables into another folder with terrace ps migrate"
        )));
    }
    match read_format(path)? {
        Some(FORMAT) => {}
        Some(format) => {
            let what = if format > FORMAT { "use a newer one" } else { "fill a new folder" };
            return Err(TierError::Protocol(format!(
                "embedded: {shown} has format {format}, and this program knows {FORMAT}; {what}"
            )));
        }
        None if is_fjall_folder(path) => {
            return Err(TierError::Protocol(format!(
                "embedded: {shown} is a folder of fjall without a file {FORMAT_FILE}, so another \
                 program made it; choose another folder"
            )));
        }
        None if read_only => {
            return Err(TierError::Unavailable(format!(
                "embedded: there is no database in {shown}, and it is to be read only; fill it \
                 first"
            )));
        }
        None => make_folder(path)?,
    }
    clear_unfinished(path)
}

fn is_fjall_folder(path: &Path) -> bool {
    std::fs::read(path.join(FJALL_VERSION)).is_ok_and(|bytes| bytes.starts_with(FJALL_MAGIC))
}

fn read_format(path: &Path) -> Result<Option<u32>, TierError> {
    let file = path.join(FORMAT_FILE);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(folder_fault("cannot read", &file)(error)),
    };
    text.trim().parse().map(Some).map_err(|_| {
        let (file, text) = (file.display(), text.trim());
        TierError::Protocol(format!("embedded: {file} has {text:?} in place of a format's number"))
    })
}

fn make_folder(path: &Path) -> Result<(), TierError> {
    std::fs::create_dir_all(path).map_err(folder_fault("cannot make the folder", path))?;
    let (file, unfinished) = (path.join(FORMAT_FILE), path.join("terrace.format.new"));
    let written = File::create(&unfinished).and_then(|mut file| {
        writeln!(file, "{FORMAT}")?;
        file.sync_all()
    });
    let named = written.and_then(|()| std::fs::rename(&unfinished, &file));
    let synced = named.and_then(|()| File::open(path)?.sync_all());
    synced.map_err(folder_fault("cannot write", &file))
}

/// Deletes the journal of a database that a process was making when it ended: fjall would not make
/// it again.
fn clear_unfinished(path: &Path) -> Result<(), TierError> {
    let journal = path.join(FIRST_JOURNAL);
    if path.join(FJALL_VERSION).exists() || !journal.exists() {
        return Ok(());
    }
    let lock_path = path.join(FJALL_LOCK);
    let lock = OpenOptions::new().create(true).write(true).truncate(false).open(&lock_path);
    let lock = lock.map_err(folder_fault("cannot open", &lock_path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use(path)),
        Err(TryLockError::Error(error)) => {
            return Err(folder_fault("cannot lock", &lock_path)(error));
        }
    }
    if path.join(FJALL_VERSION).exists() {
        return Ok(());
    }
    std::fs::remove_file(&journal).map_err(folder_fault("cannot delete", &journal))
}

pub fn in_use(path: &Path) -> TierError {
    TierError::Unavailable(format!(
        "embedded: {} is in use by another process; end it, or give each a folder of its own",
        path.display()
    ))
}
