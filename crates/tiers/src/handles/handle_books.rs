//! Which handles there are, who has which name, and how much room is left. No files.
//!
//! A name is that of one handle of an owner. What handles, drafts and other files of the folder
//! take is never more than the budget through anything that is added here; what a folder had
//! before may be, and then nothing is added until there is room.

use std::collections::{BTreeMap, HashMap};

use super::handle_error::HandleError;
use super::handle_id::HandleId;
use super::handle_info::HandleInfo;
use super::handle_labels::HandleLabels;

/// Beside the bytes of its file each handle is charged for its labels, whose file is shorter than
/// half of this: while it is replaced there are two. A draft's last block is within it, too.
pub const LABELS_BYTES: u64 = 4096;

pub struct HandleBooks {
    budget_bytes: u64,
    handles: BTreeMap<HandleId, HandleInfo>,
    names: HashMap<(Option<String>, String), HandleId>,
    /// What each will have when it is committed.
    drafts: HashMap<HandleId, u64>,
    /// Of files in the folder that are no handles: damaged ones, and such of other versions.
    other_bytes: u64,
    used_bytes: u64,
}

impl HandleBooks {
    pub fn new(budget_bytes: u64, other_bytes: u64) -> Self {
        HandleBooks {
            budget_bytes,
            handles: BTreeMap::new(),
            names: HashMap::new(),
            drafts: HashMap::new(),
            other_bytes,
            used_bytes: other_bytes,
        }
    }

    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub fn handles(&self) -> impl Iterator<Item = &HandleInfo> {
        self.handles.values()
    }

    pub fn get(&self, id: HandleId) -> Result<&HandleInfo, HandleError> {
        self.handles.get(&id).ok_or(HandleError::Unknown(id))
    }

    pub fn find(&self, name: &str, owner: Option<&str>) -> Option<&HandleInfo> {
        self.handles.get(self.names.get(&(owner.map(str::to_owned), name.to_owned()))?)
    }

    /// Takes room for a draft, until it is added or given up.
    pub fn begin(&mut self, id: HandleId, file_bytes: u64) -> Result<(), HandleError> {
        if self.handles.contains_key(&id) || self.drafts.contains_key(&id) {
            return Err(HandleError::Exists(id));
        }
        let bytes = file_bytes.saturating_add(LABELS_BYTES);
        let HandleBooks { budget_bytes, used_bytes, .. } = *self;
        if bytes > budget_bytes.saturating_sub(used_bytes) {
            return Err(HandleError::NoRoom { bytes, used_bytes, budget_bytes });
        }
        self.drafts.insert(id, bytes);
        self.used_bytes += bytes;
        Ok(())
    }

    /// Gives the room of a draft back.
    pub fn give_up(&mut self, id: HandleId) {
        self.used_bytes -= self.drafts.remove(&id).unwrap_or(0);
    }

    /// A handle that is whole on the disk. Returns the one whose name it takes.
    pub fn add(&mut self, info: HandleInfo) -> Option<HandleInfo> {
        self.give_up(info.id);
        self.used_bytes += info.file_bytes + LABELS_BYTES;
        let replaced = self.find(&info.name, info.owner.as_deref()).map(|replaced| replaced.id);
        let replaced = replaced.and_then(|id| self.remove(id));
        self.names.insert(name_of(&info), info.id);
        self.handles.insert(info.id, info);
        replaced
    }

    pub fn remove(&mut self, id: HandleId) -> Option<HandleInfo> {
        let info = self.handles.remove(&id)?;
        self.names.remove(&name_of(&info));
        self.used_bytes -= info.file_bytes + LABELS_BYTES;
        Some(info)
    }

    /// Whether a handle may have these labels: nobody else has the name.
    pub fn check_labels(&self, id: HandleId, labels: &HandleLabels) -> Result<(), HandleError> {
        let owner = self.get(id)?.owner.as_deref();
        match self.find(&labels.name, owner) {
            Some(other) if other.id != id => {
                Err(HandleError::NameTaken { name: labels.name.clone(), id: other.id })
            }
            _ => Ok(()),
        }
    }

    /// Labels that were checked.
    pub fn set_labels(&mut self, id: HandleId, labels: HandleLabels) {
        let Some(info) = self.handles.get_mut(&id) else { return };
        self.names.remove(&name_of(info));
        labels.set(info);
        self.names.insert(name_of(info), id);
    }

    /// Panics where the books disagree.
    pub fn check(&self) {
        for (id, info) in &self.handles {
            assert_eq!(info.id, *id);
            assert_eq!(self.names.get(&name_of(info)), Some(id), "the name {:?}", info.name);
            assert!(!self.drafts.contains_key(id), "{id} is a draft too");
        }
        assert_eq!(self.names.len(), self.handles.len(), "names");
        let handles = self.handles.values().map(|info| info.file_bytes + LABELS_BYTES);
        let bytes = handles.chain(self.drafts.values().copied()).sum::<u64>() + self.other_bytes;
        assert_eq!(self.used_bytes, bytes, "bytes in use");
    }
}

fn name_of(info: &HandleInfo) -> (Option<String>, String) {
    (info.owner.clone(), info.name.clone())
}
