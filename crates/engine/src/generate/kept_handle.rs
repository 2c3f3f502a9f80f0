//! What a request leaves behind under a name, as it is asked for and as it is reported.

use std::sync::Arc;

use terrace_tiers::{HandleId, HandleInfo, HandleManifest};

use crate::generate::past::Past;

/// How what a request leaves is kept when it ends.
#[derive(Clone, Debug)]
pub struct KeepAs {
    pub id: HandleId,
    /// Saves it in a file. Who it belongs to and how it is computed is filled in; tokens and tables
    /// follow when it has ended.
    pub manifest: Option<Box<HandleManifest>>,
    /// Keeps it in host memory, within the budget of pins.
    pub pin: bool,
}

/// What has been kept.
#[derive(Clone, Debug)]
pub struct KeptHandle {
    /// Without what its file has.
    pub past: Arc<Past>,
    /// Pages that hold something of it.
    pub pages: usize,
    /// Of the file, where it was saved.
    pub info: Option<HandleInfo>,
}
