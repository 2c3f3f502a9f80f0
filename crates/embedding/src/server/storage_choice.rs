//! Which storage of the persistent level a table that starts is in.

use std::sync::Arc;

use super::shared_databases::SharedDatabases;
use super::start_error::StartError;
use super::storage_claims::StorageClaim;
use super::table_plan::TablePlan;
use super::table_start::StartProgress;
use crate::config::PsConfig;
use crate::load::{FileVersion, LoadProgress};
use crate::table_tag::TableTag;

pub struct StorageChoice<'a> {
    pub databases: &'a Arc<SharedDatabases>,
    pub config: &'a PsConfig,
    /// Called with the table's tag.
    pub progress: &'a mut dyn FnMut(&str, StartProgress),
}

impl StorageChoice<'_> {
    /// That of the files' version, or one that is to take it; `None` where there is none of its
    /// own: no database, or one that nobody writes to.
    pub fn claim(
        self,
        plan: &TablePlan,
        version: Option<&FileVersion<'_>>,
    ) -> Result<Option<StorageClaim>, StartError> {
        let databases = self.databases;
        let (Some(database), Some(config)) = (databases.persistent(), &self.config.persistent)
        else {
            return Ok(None);
        };
        if config.read_only {
            return Ok(None);
        }
        let tag = &plan.spec.tag;
        let version = version.filter(|_| config.initialize_after_startup);
        if let Some(version) = version {
            self.hash_if_needed(tag, version)?;
        }
        let is_living = |storage: &TableTag| databases.is_living(storage);
        let claim =
            databases.claims().take(
                database,
                tag,
                &is_living,
                &mut |stored, is_taken| match version {
                    Some(version) => {
                        stored.slot_for(&version.stamp().text, version.known_hash(), is_taken)
                    }
                    None => stored.served_with(None).map_or(0, |version| version.slot),
                },
            );
        match claim.map_err(StartError::level(tag.as_str()))? {
            Some(claim) => Ok(Some(claim)),
            None => {
                let why = match config.initialize_after_startup {
                    true => "its files cannot be read",
                    false => "initialize_after_startup is false",
                };
                Err(StartError::InUse { table: tag.to_string(), why })
            }
        }
    }

    /// Files that were copied or touched may be a version that is there.
    fn hash_if_needed(self, tag: &TableTag, version: &FileVersion<'_>) -> Result<(), StartError> {
        let Some(database) = self.databases.persistent() else { return Ok(()) };
        let is_living = |storage: &TableTag| self.databases.is_living(storage);
        let stamp = &version.stamp().text;
        let needs_hash = self
            .databases
            .claims()
            .look(&**database, tag, &is_living, |stored, is_taken| {
                stored.needs_hash(stamp, is_taken)
            })
            .map_err(StartError::level(tag.as_str()))?;
        if needs_hash {
            let progress =
                &mut |at: LoadProgress| (self.progress)(tag.as_str(), StartProgress::Load(at));
            let load = |error| StartError::Load { table: tag.to_string(), error };
            version.hash(progress).map_err(load)?;
        }
        Ok(())
    }
}
