//! Which storages of a database are in use by tables that are served or started.
//!
//! Each is one table's, so that no two feeds write to it. One whose table ends is waited for: its
//! last updates are still being applied.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use terrace_tiers::TierError;

use super::stored_versions::StoredVersions;
use crate::row_database::RowDatabase;
use crate::table_spec::TableSpec;
use crate::table_tag::TableTag;

#[derive(Default)]
pub struct StorageClaims {
    /// By their names.
    taken: Mutex<Taken>,
    released: Condvar,
}

type Taken = BTreeMap<String, Stage>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    /// It is served, or ends.
    Started,
}

/// Released when it is dropped; then versions that nobody needs any more are removed.
pub struct StorageClaim {
    claims: Arc<StorageClaims>,
    database: Arc<dyn RowDatabase>,
    tag: TableTag,
    slot: u32,
}

/// Names a slot of those that are there; the second says which are taken.
type ChooseSlot<'a> = dyn FnMut(&StoredVersions, &dyn Fn(&TableTag) -> bool) -> u32 + 'a;

impl StorageClaims {
    /// Takes the slot that `choose` names of those that are there, which gets the taken ones;
    /// `None` where that is taken, too. Storages of the table that are neither started nor
    /// `is_living` are waited for.
    pub fn take(
        self: &Arc<Self>,
        database: &Arc<dyn RowDatabase>,
        tag: &TableTag,
        is_living: &dyn Fn(&TableTag) -> bool,
        choose: &mut ChooseSlot<'_>,
    ) -> Result<Option<StorageClaim>, TierError> {
        let mut taken = self.settled(tag, is_living);
        let stored = StoredVersions::find(&**database, tag)?;
        let is_taken = |storage: &TableTag| taken.contains_key(storage.as_str());
        let slot = choose(&stored, &is_taken);
        let storage = tag.storage(slot);
        if is_taken(&storage) {
            return Ok(None);
        }
        taken.insert(storage.as_str().to_owned(), Stage::Starting);
        let (claims, database, tag) = (Arc::clone(self), Arc::clone(database), tag.clone());
        Ok(Some(StorageClaim { claims, database, tag, slot }))
    }

    /// Calls `look` with the storages of a table that are there, and which of them are taken.
    pub fn look<T>(
        &self,
        database: &dyn RowDatabase,
        tag: &TableTag,
        is_living: &dyn Fn(&TableTag) -> bool,
        look: impl FnOnce(&StoredVersions, &dyn Fn(&TableTag) -> bool) -> T,
    ) -> Result<T, TierError> {
        let taken = self.settled(tag, is_living);
        let stored = StoredVersions::find(database, tag)?;
        Ok(look(&stored, &|storage| taken.contains_key(storage.as_str())))
    }

    /// Once no table of this tag is ending.
    fn settled(
        &self,
        tag: &TableTag,
        is_living: &dyn Fn(&TableTag) -> bool,
    ) -> MutexGuard<'_, Taken> {
        let mut taken = self.lock();
        let is_ending = |(storage, stage): (&String, &Stage)| {
            let slot = tag.slot_of(storage).filter(|_| *stage == Stage::Started);
            slot.is_some_and(|slot| !is_living(&tag.storage(slot)))
        };
        while taken.iter().any(is_ending) {
            taken = self.released.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        taken
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageClaim {
    pub fn storage(&self) -> TableTag {
        self.tag.storage(self.slot)
    }

    /// The table as the database knows it.
    pub fn spec(&self, spec: &TableSpec) -> TableSpec {
        TableSpec { tag: self.storage(), ..spec.clone() }
    }

    /// Its table is known to be living from now on.
    pub fn note_started(&self) {
        self.claims.lock().insert(self.storage().as_str().to_owned(), Stage::Started);
    }

    /// Says in the record that this version is served, where there are others.
    pub fn note_served(&self) -> Result<(), TierError> {
        let Some(served) = StoredVersions::find(&*self.database, &self.tag)?.next_served() else {
            return Ok(());
        };
        let storage = self.storage();
        let Some(mut record) = self.database.record(storage.as_str())? else { return Ok(()) };
        record.served = served;
        self.database.write_record(storage.as_str(), &record)
    }
}

impl Drop for StorageClaim {
    fn drop(&mut self) {
        let mut taken = self.claims.lock();
        taken.remove(self.storage().as_str());
        let is_taken = |storage: &TableTag| taken.contains_key(storage.as_str());
        let removed = StoredVersions::find(&*self.database, &self.tag).and_then(|stored| {
            let mut surplus = stored.surplus(&is_taken).into_iter();
            surplus.try_for_each(|storage| self.database.remove_table(storage.as_str()))
        });
        if let Err(error) = removed {
            let tag = &self.tag;
            tracing::warn!("versions of {tag} that nobody needs are not removed: {error}");
        }
        drop(taken);
        self.claims.released.notify_all();
    }
}
