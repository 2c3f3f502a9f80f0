//! The folder of handles: its files, and the order in which they are changed.
//!
//! | name | what |
//! |---|---|
//! | `<id>.kv` | a handle, whole and never changed |
//! | `<id>.json` | its labels, if they were changed since |
//! | `<id>.tmp`, `<id>.json.tmp` | under way; deleted when the folder is opened |
//! | `<id>.damaged` | was a handle; kept for whoever wants to look at it |
//!
//! A file comes under its final name by one rename, after it was synced; the folder is synced
//! before anybody is given the news. Of a handle that is removed the `.kv` goes first: labels alone
//! mean nothing, the other way round an old name would come back. Other names are not looked at.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::handle_file::HandleFault;
use super::handle_id::HandleId;
use super::handle_info::HandleInfo;
use super::handle_labels::HandleLabels;
use super::handle_reader::HandleReader;
use crate::disk::io_fault;
use crate::tier_error::TierError;

const READ_BYTES: usize = 1 << 20;

pub struct HandleFolder {
    path: PathBuf,
}

/// What a folder had when it was opened.
#[derive(Default)]
pub struct Listed {
    /// The oldest first.
    pub handles: Vec<HandleInfo>,
    /// Of files that are no handles here: damaged ones, and such of other versions.
    pub other_bytes: u64,
}

/// Why a file of the folder is not taken for a handle.
enum Skipped {
    /// It may be one for others, or at another time.
    Unread(String),
    Damaged(String),
}

impl HandleFolder {
    /// Makes the folder if there is none.
    pub fn open(path: PathBuf) -> Result<Self, TierError> {
        let is_new = !path.is_dir();
        std::fs::create_dir_all(&path).map_err(io_fault("cannot make the folder", &path))?;
        if is_new && let Some(parent) = path.parent().filter(|parent| parent.is_dir()) {
            sync_folder(parent)?;
        }
        Ok(HandleFolder { path })
    }

    pub fn kv_path(&self, id: HandleId) -> PathBuf {
        self.path.join(format!("{id}.kv"))
    }

    pub fn draft_path(&self, id: HandleId) -> PathBuf {
        self.path.join(format!("{id}.tmp"))
    }

    fn labels_path(&self, id: HandleId) -> PathBuf {
        self.path.join(format!("{id}.json"))
    }

    /// Deletes what was under way, moves damaged files aside, and lists the rest.
    pub fn list(&self) -> Result<Listed, TierError> {
        let fault = io_fault("cannot list", &self.path);
        let (mut handles, mut labels) = (BTreeSet::new(), BTreeSet::new());
        let mut listed = Listed::default();
        for entry in std::fs::read_dir(&self.path).map_err(&fault)? {
            let entry = entry.map_err(&fault)?;
            let name = entry.file_name();
            let Some((stem, end)) = name.to_str().and_then(|name| name.split_once('.')) else {
                continue;
            };
            let Some(id) = HandleId::parse(stem) else { continue };
            match end {
                "kv" => {
                    handles.insert(id);
                }
                "json" => {
                    labels.insert(id);
                }
                "tmp" | "json.tmp" => delete(&entry.path())?,
                "damaged" => listed.other_bytes += entry.metadata().map_err(&fault)?.len(),
                _ => {}
            }
        }
        for &id in &handles {
            self.list_one(id, &mut listed)?;
        }
        for id in labels.difference(&handles) {
            delete(&self.labels_path(*id))?;
        }
        listed.handles.sort_by_key(|info| (info.created_unix_ms, info.id));
        Ok(listed)
    }

    /// A draft that was synced becomes a handle.
    pub fn publish(&self, id: HandleId) -> Result<(), TierError> {
        let (from, to) = (self.draft_path(id), self.kv_path(id));
        std::fs::rename(&from, &to).map_err(io_fault("cannot rename", &from))?;
        let synced = sync_folder(&self.path);
        if synced.is_err() {
            // Nobody is given the handle, so it must not come back; the first error counts.
            let _ = delete(&to);
        }
        synced
    }

    pub fn write_labels(&self, id: HandleId, labels: &HandleLabels) -> Result<(), TierError> {
        let to = self.labels_path(id);
        let from = to.with_extension("json.tmp");
        let written = File::create(&from).and_then(|mut file| {
            file.write_all(labels.encode().as_bytes())?;
            file.sync_all()
        });
        let written = written.map_err(io_fault("cannot write", &from));
        let renamed = written
            .and_then(|()| std::fs::rename(&from, &to).map_err(io_fault("cannot rename", &from)));
        if renamed.is_err() {
            // What could not be made cannot be deleted either; the first error counts.
            let _ = delete(&from);
        }
        renamed.and_then(|()| sync_folder(&self.path))
    }

    /// One that is not there is no error.
    pub fn remove(&self, id: HandleId) -> Result<(), TierError> {
        delete(&self.kv_path(id))?;
        sync_folder(&self.path)?;
        delete(&self.labels_path(id))
    }

    pub fn delete_draft(&self, id: HandleId) -> Result<(), TierError> {
        delete(&self.draft_path(id))
    }

    fn list_one(&self, id: HandleId, listed: &mut Listed) -> Result<(), TierError> {
        let path = self.kv_path(id);
        let skipped = match self.read(id) {
            Ok(info) => {
                listed.handles.push(info);
                return Ok(());
            }
            Err(skipped) => skipped,
        };
        listed.other_bytes += path.metadata().map_or(0, |file| file.len());
        let path_text = path.display();
        match skipped {
            Skipped::Unread(why) => {
                tracing::warn!("{path_text} is left alone: {why}; delete it to have its room back");
            }
            Skipped::Damaged(why) => {
                let aside = path.with_extension("damaged");
                std::fs::rename(&path, &aside).map_err(io_fault("cannot rename", &path))?;
                let aside = aside.display();
                tracing::warn!(
                    "{path_text} is no whole handle: {why}; it is {aside} now, delete it to have \
                     its room back"
                );
                delete(&self.labels_path(id))?;
            }
        }
        Ok(())
    }

    /// All of a handle but its pages.
    fn read(&self, id: HandleId) -> Result<HandleInfo, Skipped> {
        let unread = |error: std::io::Error| Skipped::Unread(error.to_string());
        let file = File::open(self.kv_path(id)).map_err(unread)?;
        let bytes = file.metadata().map_err(unread)?.len();
        let reader = HandleReader::new(BufReader::with_capacity(READ_BYTES, file));
        let reader = reader.map_err(|fault| match fault {
            HandleFault::Io(_) | HandleFault::OtherVersion(_) => Skipped::Unread(fault.to_string()),
            _ => Skipped::Damaged(fault.to_string()),
        })?;
        let want_bytes = reader.file_bytes();
        if bytes != want_bytes {
            return Err(Skipped::Damaged(format!("it has {bytes} of {want_bytes} bytes")));
        }
        let mut info = HandleInfo::new(reader.manifest(), want_bytes);
        if info.id != id {
            let why = format!("it is handle {}, import it to have it under a new id", info.id);
            return Err(Skipped::Damaged(why));
        }
        match std::fs::read(self.labels_path(id)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(unread(error)),
            Ok(text) => {
                let labels = std::str::from_utf8(&text).ok().and_then(HandleLabels::decode);
                let Some(labels) = labels else {
                    return Err(Skipped::Damaged("its labels are damaged".to_owned()));
                };
                labels.set(&mut info);
            }
        }
        Ok(info)
    }
}

fn delete(path: &Path) -> Result<(), TierError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(io_fault("cannot delete", path)(error))
        }
        _ => Ok(()),
    }
}

/// Makes the names in a folder survive a power cut.
fn sync_folder(path: &Path) -> Result<(), TierError> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(io_fault("cannot sync", path))
}
