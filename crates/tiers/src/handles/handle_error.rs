//! Why the store of handles did not do what it was asked.

use std::io;

use thiserror::Error;

use super::handle_file::HandleFault;
use super::handle_id::HandleId;
use super::handle_manifest::ManifestFault;
use crate::tier_error::TierError;

#[derive(Debug, Error)]
pub enum HandleError {
    #[error("there is no handle {0}")]
    Unknown(HandleId),
    #[error("there is a handle {0} already; give each its own id")]
    Exists(HandleId),
    #[error("the name {name:?} is that of handle {id}; remove it, or choose another name")]
    NameTaken { name: String, id: HandleId },
    #[error(
        "a handle of {bytes} bytes does not fit: {used_bytes} of {budget_bytes} bytes are in use; \
         remove handles, or raise the budget"
    )]
    NoRoom { bytes: u64, used_bytes: u64, budget_bytes: u64 },
    /// A name that no handle may have.
    #[error(transparent)]
    Name(ManifestFault),
    /// What was given is no handle, or not as its manifest says.
    #[error("the handle is refused: {0}")]
    Given(HandleFault),
    /// A file of the store is not what was written.
    #[error("handle {id} is damaged: {fault}; remove it and compute it again")]
    Damaged { id: HandleId, fault: HandleFault },
    #[error("cannot read what is imported: {0}")]
    Source(io::Error),
    #[error("cannot write what is exported: {0}")]
    Sink(io::Error),
    /// The disk is full, read-only or failed: the message says which, and what to do.
    #[error(transparent)]
    Disk(#[from] TierError),
}
