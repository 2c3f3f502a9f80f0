//! The versions of one table that a database keeps, each in a storage of its own.
//!
//! The first storage is called as the table, others have a number behind that. While a version is
//! served, another one is loaded into the storage that was served longest ago and is served by
//! nobody, or into a new one. At most two stay: the version that was served last, and the one
//! before it, which is there when somebody rolls back. Where nobody serves the table and there is
//! one storage, that takes the new version.

use std::cmp::Reverse;

use terrace_tiers::TierError;

use crate::row_database::RowDatabase;
use crate::table_record::TableRecord;
use crate::table_tag::TableTag;

pub struct StoredVersions {
    tag: TableTag,
    /// By slot.
    versions: Vec<StoredVersion>,
}

pub struct StoredVersion {
    pub slot: u32,
    pub record: TableRecord,
}

/// Versions that stay when nobody serves them.
const KEPT_MOST: usize = 2;

impl StoredVersions {
    pub fn find(database: &dyn RowDatabase, tag: &TableTag) -> Result<Self, TierError> {
        let tags = database.tags()?;
        let mut slots: Vec<u32> = tags.iter().filter_map(|storage| tag.slot_of(storage)).collect();
        slots.sort_unstable();
        let mut versions = Vec::new();
        for slot in slots {
            // One that was made a moment before its process ended has nothing in it.
            if let Some(record) = database.record(tag.storage(slot).as_str())? {
                versions.push(StoredVersion { slot, record });
            }
        }
        Ok(StoredVersions { tag: tag.clone(), versions })
    }

    /// Those of files with this stamp, or else what was served last; `None` where there is nothing.
    pub fn served_with(&self, stamp: Option<&str>) -> Option<&StoredVersion> {
        let of_files = |version: &&StoredVersion| {
            stamp.is_some_and(|stamp| version.record.stamp.as_deref() == Some(stamp))
        };
        let rank = |version: &&StoredVersion| {
            (version.record.is_loaded, version.record.served, Reverse(version.slot))
        };
        self.versions.iter().find(of_files).or_else(|| self.versions.iter().max_by_key(rank))
    }

    /// Whether only a hash of the files can say that a storage has them already.
    pub fn needs_hash(&self, stamp: &str, is_taken: &dyn Fn(&TableTag) -> bool) -> bool {
        let mut free = self.free(is_taken).peekable();
        let is_known = self.free(is_taken).any(|it| it.record.stamp.as_deref() == Some(stamp));
        !is_known && free.any(|it| it.record.is_loaded && it.record.version.is_some())
    }

    /// The slot that has files of this stamp, or of this hash, or is to take them.
    pub fn slot_for(
        &self,
        stamp: &str,
        hash: Option<&str>,
        is_taken: &dyn Fn(&TableTag) -> bool,
    ) -> u32 {
        let of_stamp = |it: &&StoredVersion| it.record.stamp.as_deref() == Some(stamp);
        let of_hash = |it: &&StoredVersion| {
            it.record.is_loaded && hash.is_some() && it.record.version.as_deref() == hash
        };
        let found =
            self.free(is_taken).find(of_stamp).or_else(|| self.free(is_taken).find(of_hash));
        let oldest = || self.free(is_taken).min_by_key(|it| (it.record.served, it.slot));
        let new = || {
            let is_free = |slot: &u32| {
                !is_taken(&self.tag.storage(*slot))
                    && self.versions.iter().all(|it| it.slot != *slot)
            };
            (0..=u32::MAX).find(is_free).expect("fewer versions than numbers")
        };
        found.or_else(oldest).map_or_else(new, |version| version.slot)
    }

    /// What the record of the version that is served from now on says, where there are others.
    pub fn next_served(&self) -> Option<u64> {
        let last = self.versions.iter().map(|version| version.record.served).max()?;
        (self.versions.len() > 1).then_some(last.saturating_add(1))
    }

    /// Storages that are to go, because nobody serves them and newer ones stay.
    pub fn surplus(&self, is_taken: &dyn Fn(&TableTag) -> bool) -> Vec<TableTag> {
        let count = self.versions.len().saturating_sub(KEPT_MOST);
        let mut free: Vec<&StoredVersion> = self.free(is_taken).collect();
        free.sort_by_key(|version| (version.record.served, version.slot));
        free.into_iter().take(count).map(|version| self.tag.storage(version.slot)).collect()
    }

    fn free<'a>(
        &'a self,
        is_taken: &'a dyn Fn(&TableTag) -> bool,
    ) -> impl Iterator<Item = &'a StoredVersion> {
        self.versions.iter().filter(|version| !is_taken(&self.tag.storage(version.slot)))
    }
}

#[cfg(test)]
mod tests;
