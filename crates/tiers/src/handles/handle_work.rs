//! Work of the store of handles, as data: between pages of host memory and files.

use terrace_cache::{StorePageId, WorkId};

use super::handle_error::HandleError;
use super::handle_id::HandleId;
use super::handle_info::HandleInfo;
use super::handle_manifest::HandleManifest;

/// To be done beside the steps. Until it is done nobody else writes the pages that it reads, or
/// uses those that it writes.
#[derive(Clone, Debug)]
pub struct HandleWork {
    pub id: WorkId,
    pub task: HandleTask,
}

/// Pages are in the order of the manifest, table by table.
#[derive(Clone, Debug)]
pub enum HandleTask {
    /// Pages of the store into a file, which is durable when the work is done.
    Save { manifest: Box<HandleManifest>, pages: Vec<StorePageId> },
    /// A file's pages into pages of the store.
    Load { handle: HandleId, pages: Vec<StorePageId> },
}

/// What came of the work.
#[derive(Debug)]
pub struct HandleDone {
    pub id: WorkId,
    /// What was saved, if something was.
    pub result: Result<Option<HandleInfo>, HandleError>,
}
