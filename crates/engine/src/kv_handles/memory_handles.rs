//! Handles of an engine without a disk level: in memory alone, gone with the process.
//!
//! It has their tokens and labels; pages are the engine's. Name and owner are those of one handle.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_tiers::HandleId;

use crate::generate::past::Past;

#[derive(Default)]
pub(crate) struct MemoryHandles {
    handles: BTreeMap<HandleId, MemoryHandle>,
}

#[derive(Clone)]
pub(crate) struct MemoryHandle {
    pub(crate) name: String,
    pub(crate) owner: Option<String>,
    pub(crate) created_unix_ms: u64,
    pub(crate) expires_unix_ms: Option<u64>,
    pub(crate) is_pinned: bool,
    pub(crate) bytes: u64,
    pub(crate) past: Arc<Past>,
}

impl MemoryHandles {
    pub(crate) fn get(&self, id: HandleId) -> Option<&MemoryHandle> {
        self.handles.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: HandleId) -> Option<&mut MemoryHandle> {
        self.handles.get_mut(&id)
    }

    pub(crate) fn find(&self, name: &str, owner: Option<&str>) -> Option<HandleId> {
        let is_it = |handle: &MemoryHandle| handle.name == name && handle.owner.as_deref() == owner;
        self.handles.iter().find(|(_, handle)| is_it(handle)).map(|(id, _)| *id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (HandleId, &MemoryHandle)> {
        self.handles.iter().map(|(id, handle)| (*id, handle))
    }

    /// Returns the one whose name it takes.
    pub(crate) fn insert(&mut self, id: HandleId, handle: MemoryHandle) -> Option<HandleId> {
        let replaced = self.find(&handle.name, handle.owner.as_deref());
        replaced.into_iter().for_each(|id| drop(self.handles.remove(&id)));
        self.handles.insert(id, handle);
        replaced
    }

    pub(crate) fn remove(&mut self, id: HandleId) -> Option<MemoryHandle> {
        self.handles.remove(&id)
    }

    /// Removes what has expired and is not pinned, and says which.
    pub(crate) fn remove_expired(&mut self, now_unix_ms: u64) -> Vec<HandleId> {
        let is_over = |handle: &MemoryHandle| {
            let is_past = |expires: u64| expires <= now_unix_ms;
            !handle.is_pinned && handle.expires_unix_ms.is_some_and(is_past)
        };
        let expired = self.handles.iter().filter(|(_, handle)| is_over(handle));
        let expired: Vec<HandleId> = expired.map(|(id, _)| *id).collect();
        expired.iter().for_each(|id| drop(self.handles.remove(id)));
        expired
    }
}
