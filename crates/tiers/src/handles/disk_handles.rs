//! Handles in the folder of a disk tier: both share its budget, and handles go first.
//!
//! Before a handle is written, page records give up the room that it takes.

use std::io::{Read, Write};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::handle_draft::HandleDraft;
use super::handle_error::HandleError;
use super::handle_id::HandleId;
use super::handle_info::HandleInfo;
use super::handle_manifest::HandleManifest;
use super::handle_reader::HandleReader;
use super::handle_store::HandleStore;
use super::stored_reader::StoredReader;
use crate::disk::DiskTier;

pub struct DiskHandles {
    store: HandleStore,
    pages: Arc<DiskTier>,
    budget_bytes: u64,
}

/// What a page takes beside its bytes, and a file beside its pages and tokens; a little more.
const PAGE_EXTRA_BYTES: u64 = 64;
const FILE_EXTRA_BYTES: u64 = 256 << 10;

impl DiskHandles {
    /// `folder` and `budget_bytes` are those of `pages`. What has expired is removed.
    pub fn open(
        folder: &Path,
        budget_bytes: u64,
        pages: Arc<DiskTier>,
        now_unix_ms: u64,
    ) -> Result<Self, HandleError> {
        let store = HandleStore::open(folder.join("handles"), budget_bytes)?;
        let handles = DiskHandles { store, pages, budget_bytes };
        handles.remove_expired(now_unix_ms)?;
        handles.reserve(0)?;
        Ok(handles)
    }

    /// What is asked and changes no file's length.
    pub fn store(&self) -> &HandleStore {
        &self.store
    }

    /// Writes a handle with all its pages, table by table, and makes it durable.
    pub fn save<P: Deref<Target = [u8]>>(
        &self,
        manifest: &HandleManifest,
        mut pages: impl Iterator<Item = P>,
    ) -> Result<HandleInfo, HandleError> {
        self.reserve(file_bytes_most(manifest))?;
        let draft = self.store.create(manifest).and_then(|mut draft| {
            pages.try_for_each(|page| draft.write_page(&page))?;
            Ok(draft)
        });
        let saved = draft.and_then(HandleDraft::commit);
        self.reserve(0)?;
        saved
    }

    pub fn open_reader(&self, id: HandleId) -> Result<HandleReader<StoredReader>, HandleError> {
        self.store.open_reader(id)
    }

    pub fn remove(&self, id: HandleId) -> Result<(), HandleError> {
        self.store.remove(id)?;
        self.reserve(0)
    }

    pub fn remove_expired(&self, now_unix_ms: u64) -> Result<Vec<HandleId>, HandleError> {
        let removed = self.store.remove_expired(now_unix_ms)?;
        if !removed.is_empty() {
            self.reserve(0)?;
        }
        Ok(removed)
    }

    pub fn import<R: Read>(
        &self,
        source: HandleReader<R>,
        owner: Option<&str>,
        name: Option<&str>,
        check: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<HandleInfo, HandleError> {
        self.reserve(file_bytes_most(source.manifest()))?;
        let imported = self.store.import(source, owner, name, check);
        self.reserve(0)?;
        imported
    }

    pub fn export(&self, id: HandleId, sink: impl Write) -> Result<u64, HandleError> {
        self.store.export(id, sink)
    }

    /// Page records leave the room that handles take, and `more` bytes. What they give up for it
    /// is found out when it is read.
    fn reserve(&self, more: u64) -> Result<(), HandleError> {
        let used = self.store.used_bytes();
        let wanted = used.saturating_add(more);
        // What can never fit is refused soon; pages need not give way for it.
        let reserved = if wanted <= self.budget_bytes { wanted } else { used };
        self.pages.set_reserved_bytes(reserved)?;
        Ok(())
    }
}

fn file_bytes_most(manifest: &HandleManifest) -> u64 {
    let lists = manifest.row_kind_ends.len() + manifest.chunk_ends.len() + manifest.tables.len();
    let numbers = 4 * manifest.tokens.len() as u64 + 8 * (lists as u64 + manifest.pages());
    let pages = manifest.pages().saturating_mul(manifest.page_bytes + PAGE_EXTRA_BYTES);
    pages.saturating_add(numbers + FILE_EXTRA_BYTES)
}
