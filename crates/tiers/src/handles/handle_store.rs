//! The durable store of handles: a folder of files with a budget, and a list of them in memory.
//!
//! A handle that was committed is there after a crash or a power cut, whole and under the labels
//! that were set last; nothing else is. Its manifest is checked when the folder is opened, its
//! pages when they are read. Name and owner are those of one handle: a second one that is committed
//! takes the place of the first. Nothing is evicted: what does not fit is refused, and what is
//! expired stays until [`HandleStore::remove_expired`].
//!
//! The folder belongs to one process, whose business that is.

use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::handle_catalog::HandleCatalog;
use super::handle_draft::HandleDraft;
use super::handle_error::HandleError;
use super::handle_file::HandleFault;
use super::handle_id::HandleId;
use super::handle_info::HandleInfo;
use super::handle_manifest::HandleManifest;
use super::handle_reader::HandleReader;
use super::handle_writer::HandleWriter;
use super::stored_reader::StoredReader;
use crate::disk::io_fault;

pub struct HandleStore {
    catalog: Arc<HandleCatalog>,
}

impl HandleStore {
    /// Makes the folder if there is none, deletes what was not committed, and moves damaged files
    /// aside with a warning each.
    pub fn open(folder: PathBuf, budget_bytes: u64) -> Result<Self, HandleError> {
        let catalog = Arc::new(HandleCatalog::open(folder, budget_bytes)?);
        Ok(HandleStore { catalog })
    }

    /// By id.
    pub fn list(&self) -> Vec<HandleInfo> {
        self.catalog.books().handles().cloned().collect()
    }

    pub fn get(&self, id: HandleId) -> Result<HandleInfo, HandleError> {
        self.catalog.books().get(id).cloned()
    }

    pub fn find(&self, name: &str, owner: Option<&str>) -> Option<HandleInfo> {
        self.catalog.books().find(name, owner).cloned()
    }

    /// Of handles, drafts at their final size, and damaged files.
    pub fn used_bytes(&self) -> u64 {
        self.catalog.books().used_bytes()
    }

    /// Begins a handle, for which there is room in the budget and on the disk from now on.
    pub fn create(&self, manifest: &HandleManifest) -> Result<HandleDraft, HandleError> {
        HandleDraft::create(self.catalog.clone(), manifest)
    }

    /// Its manifest under the labels that were set last, then its pages. A handle that is removed
    /// meanwhile can still be read to its end.
    pub fn open_reader(&self, id: HandleId) -> Result<HandleReader<StoredReader>, HandleError> {
        let info = self.get(id)?;
        let path = self.catalog.folder.kv_path(id);
        let file = match StoredReader::open(&path) {
            // It was removed since.
            Err(error) if error.kind() == ErrorKind::NotFound => Err(HandleError::Unknown(id)),
            other => other.map_err(|error| io_fault("cannot open", &path)(error).into()),
        };
        let reader = HandleReader::new(file?).map_err(|fault| self.read_fault(id, fault))?;
        Ok(reader.with_labels(|manifest| {
            manifest.name = info.name;
            manifest.expires_unix_ms = info.expires_unix_ms;
            manifest.is_pinned = info.is_pinned;
        }))
    }

    pub fn set_expiry(&self, id: HandleId, unix_ms: Option<u64>) -> Result<(), HandleError> {
        self.catalog.change_labels(id, |labels| labels.expires_unix_ms = unix_ms)
    }

    pub fn set_pinned(&self, id: HandleId, is_pinned: bool) -> Result<(), HandleError> {
        self.catalog.change_labels(id, |labels| labels.is_pinned = is_pinned)
    }

    /// A name that another handle of the owner has is refused.
    pub fn rename(&self, id: HandleId, name: &str) -> Result<(), HandleError> {
        self.catalog.change_labels(id, |labels| name.clone_into(&mut labels.name))
    }

    pub fn remove(&self, id: HandleId) -> Result<(), HandleError> {
        self.catalog.remove(id)
    }

    /// Removes what has expired and is not pinned, and says which.
    pub fn remove_expired(&self, now_unix_ms: u64) -> Result<Vec<HandleId>, HandleError> {
        let mut removed = self.list();
        removed.retain(|info| info.is_expired(now_unix_ms));
        for info in &removed {
            match self.remove(info.id) {
                // Another has removed it.
                Ok(()) | Err(HandleError::Unknown(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed.into_iter().map(|info| info.id).collect())
    }

    /// Stores a handle that came as a file, under a new id, not pinned and marked as imported. All
    /// of it is checked before it is committed, its pages by `check` too, which says what is wrong
    /// with the next one. Without `name` it keeps its own.
    pub fn import<R: Read>(
        &self,
        mut source: HandleReader<R>,
        owner: Option<&str>,
        name: Option<&str>,
        check: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<HandleInfo, HandleError> {
        let mut manifest = source.manifest().clone();
        manifest.id = HandleId::random();
        manifest.owner = owner.map(str::to_owned);
        manifest.is_imported = true;
        manifest.is_pinned = false;
        if let Some(name) = name {
            name.clone_into(&mut manifest.name);
        }
        let mut draft = self.create(&manifest)?;
        let mut page = Vec::new();
        for number in 0..manifest.pages() {
            source.read_page_growing(&mut page).map_err(source_fault)?;
            let content = |what| HandleError::Given(HandleFault::Content { page: number, what });
            check(&page).map_err(content)?;
            draft.write_page(&page)?;
        }
        source.finish().map_err(source_fault)?;
        draft.commit()
    }

    /// Writes a handle as a file, without its owner, and says how many bytes that were. What is
    /// damaged is found before all of it is written.
    pub fn export(&self, id: HandleId, sink: impl Write) -> Result<u64, HandleError> {
        let mut reader = self.open_reader(id)?;
        let mut manifest = reader.manifest().clone();
        manifest.owner = None;
        let mut writer = HandleWriter::new(sink, &manifest).map_err(sink_fault)?;
        let mut page = vec![0; manifest.page_bytes as usize];
        while reader.pages_left() > 0 {
            reader.read_page(&mut page).map_err(|fault| self.read_fault(id, fault))?;
            writer.write_page(&page).map_err(sink_fault)?;
        }
        reader.finish().map_err(|fault| self.read_fault(id, fault))?;
        let bytes = writer.file_bytes();
        writer.finish().map_err(sink_fault)?;
        Ok(bytes)
    }

    /// Panics where the books disagree.
    pub fn check(&self) {
        self.catalog.books().check();
    }

    fn read_fault(&self, id: HandleId, fault: HandleFault) -> HandleError {
        match fault {
            HandleFault::Io(error) => {
                io_fault("cannot read", &self.catalog.folder.kv_path(id))(error).into()
            }
            fault => HandleError::Damaged { id, fault },
        }
    }
}

fn source_fault(fault: HandleFault) -> HandleError {
    match fault {
        HandleFault::Io(error) => HandleError::Source(error),
        fault => HandleError::Given(fault),
    }
}

fn sink_fault(fault: HandleFault) -> HandleError {
    match fault {
        HandleFault::Io(error) => HandleError::Sink(error),
        fault => HandleError::Given(fault),
    }
}
