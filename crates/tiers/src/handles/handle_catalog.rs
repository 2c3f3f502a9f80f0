//! The books of the store and its folder, changed together: what both a store and its drafts need.
//!
//! The books' lock is held for moments, so that nobody who asks waits for a disk. Changes to the
//! folder's names come one after the other under a lock of their own; pages are read and written
//! under neither.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use super::handle_books::HandleBooks;
use super::handle_error::HandleError;
use super::handle_folder::HandleFolder;
use super::handle_id::HandleId;
use super::handle_info::HandleInfo;
use super::handle_labels::HandleLabels;
use super::handle_manifest::check_name;

pub struct HandleCatalog {
    pub folder: HandleFolder,
    books: Mutex<HandleBooks>,
    /// Held by whoever changes names in the folder.
    changes: Mutex<()>,
}

impl HandleCatalog {
    pub fn open(path: PathBuf, budget_bytes: u64) -> Result<Self, HandleError> {
        let folder = HandleFolder::open(path)?;
        let listed = folder.list()?;
        let mut books = HandleBooks::new(budget_bytes, listed.other_bytes);
        for info in listed.handles {
            // A process ended between a handle and the deletion of the one that it replaces.
            if let Some(replaced) = books.add(info) {
                folder.remove(replaced.id)?;
            }
        }
        Ok(HandleCatalog { folder, books: Mutex::new(books), changes: Mutex::default() })
    }

    pub fn books(&self) -> MutexGuard<'_, HandleBooks> {
        self.books.lock().expect("nobody panics with the books in hand")
    }

    /// A draft whose bytes are synced becomes a handle, in place of the one with its name.
    pub fn publish(&self, info: HandleInfo) -> Result<(), HandleError> {
        let _changes = self.begin_change();
        self.folder.publish(info.id)?;
        let replaced = self.books().add(info);
        if let Some(replaced) = replaced
            && let Err(error) = self.folder.remove(replaced.id)
        {
            tracing::warn!("the handle {} was replaced and is still there: {error}", replaced.id);
        }
        Ok(())
    }

    pub fn change_labels(
        &self,
        id: HandleId,
        change: impl FnOnce(&mut HandleLabels),
    ) -> Result<(), HandleError> {
        let _changes = self.begin_change();
        let labels = {
            let books = self.books();
            let mut labels = HandleLabels::of(books.get(id)?);
            change(&mut labels);
            check_name(&labels.name).map_err(HandleError::Name)?;
            books.check_labels(id, &labels)?;
            labels
        };
        self.folder.write_labels(id, &labels)?;
        self.books().set_labels(id, labels);
        Ok(())
    }

    pub fn remove(&self, id: HandleId) -> Result<(), HandleError> {
        let _changes = self.begin_change();
        self.books().get(id)?;
        self.folder.remove(id)?;
        self.books().remove(id);
        Ok(())
    }

    fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().expect("nobody panics while names change")
    }
}
