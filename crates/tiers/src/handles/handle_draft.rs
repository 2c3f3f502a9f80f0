//! A handle in the making: a file under a temporary name, until it is committed.
//!
//! Dropped before that, it leaves nothing behind, in the folder or in the budget.

use std::sync::Arc;

use super::handle_catalog::HandleCatalog;
use super::handle_error::HandleError;
use super::handle_file::{Front, HandleFault};
use super::handle_id::HandleId;
use super::handle_info::HandleInfo;
use super::handle_manifest::HandleManifest;
use super::handle_writer::HandleWriter;
use super::stored_writer::StoredWriter;
use crate::disk::io_fault;

pub struct HandleDraft {
    catalog: Arc<HandleCatalog>,
    info: HandleInfo,
    /// `None` once it is finished, whether that went well or not.
    writer: Option<HandleWriter<StoredWriter>>,
}

impl HandleDraft {
    pub(super) fn create(
        catalog: Arc<HandleCatalog>,
        manifest: &HandleManifest,
    ) -> Result<Self, HandleError> {
        let front = Front::encode(manifest).map_err(HandleError::Given)?;
        let info = HandleInfo::new(manifest, front.header.file_bytes);
        catalog.books().begin(info.id, info.file_bytes)?;
        // From here on dropping it gives everything back.
        let mut draft = HandleDraft { catalog, info, writer: None };
        let path = draft.catalog.folder.draft_path(draft.info.id);
        let file = StoredWriter::create(&path, draft.info.file_bytes);
        let file = file.map_err(io_fault("cannot make", &path))?;
        let writer = HandleWriter::begun(file, &front);
        draft.writer = Some(writer.map_err(|fault| draft.written(fault))?);
        Ok(draft)
    }

    pub fn id(&self) -> HandleId {
        self.info.id
    }

    /// The next page, table by table as the manifest lists them.
    pub fn write_page(&mut self, page: &[u8]) -> Result<(), HandleError> {
        let writer = self.writer.as_mut().expect("a draft that was committed is gone");
        let written = writer.write_page(page);
        written.map_err(|fault| self.written(fault))
    }

    /// Makes it a handle that survives a power cut, in place of the one with its name and owner.
    pub fn commit(mut self) -> Result<HandleInfo, HandleError> {
        let writer = self.writer.take().expect("a draft that was committed is gone");
        let file = writer.finish().map_err(|fault| self.written(fault))?;
        file.finish().map_err(|error| self.written(error.into()))?;
        self.catalog.publish(self.info.clone())?;
        Ok(self.info.clone())
    }

    fn written(&self, fault: HandleFault) -> HandleError {
        match fault {
            HandleFault::Io(error) => {
                let path = self.catalog.folder.draft_path(self.info.id);
                io_fault("cannot write", &path)(error).into()
            }
            fault => HandleError::Given(fault),
        }
    }
}

impl Drop for HandleDraft {
    fn drop(&mut self) {
        self.writer = None;
        if let Err(error) = self.catalog.folder.delete_draft(self.info.id) {
            tracing::warn!("a draft is left until the next start: {error}");
        }
        self.catalog.books().give_up(self.info.id);
    }
}
