//! A tier of one's own: each record is a file that is named after its content, in a folder that
//! several machines may share.
//!
//! It has no budget and evicts nobody; who deletes old files is somebody else's business. That is
//! allowed: a record may be gone at any time.

use std::io::{Error, ErrorKind};
use std::path::PathBuf;

use terrace_cache::PageKey;
use terrace_tiers::{FoundRecord, PageTier, Stored, TierError, TierRecord, TierUsage};

pub struct FileTier {
    pub folder: PathBuf,
}

impl FileTier {
    fn path(&self, key: &PageKey) -> PathBuf {
        let name: String = key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name)
    }

    /// Whoever reads sees all of a record or none: a rename is one step.
    fn write(&self, record: &TierRecord<'_>) -> Result<(), Error> {
        let path = self.path(&record.key);
        let unfinished = path.with_extension(std::process::id().to_string());
        std::fs::write(&unfinished, record.bytes)?;
        std::fs::rename(unfinished, path)
    }
}

impl PageTier for FileTier {
    fn name(&self) -> &str {
        "files"
    }

    /// Others write here too.
    fn listed(&self) -> Option<Vec<PageKey>> {
        None
    }

    fn contains_many(&self, keys: &[PageKey]) -> Result<Vec<bool>, TierError> {
        keys.iter().map(|key| self.path(key).try_exists().map_err(fault)).collect()
    }

    fn get_many(&self, keys: &[PageKey], found: &mut FoundRecord<'_>) -> Result<(), TierError> {
        for (index, key) in keys.iter().enumerate() {
            match std::fs::read(self.path(key)) {
                Ok(record) => found(index, &record),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(fault(error)),
            }
        }
        Ok(())
    }

    fn put_many(&self, records: &[TierRecord<'_>]) -> Result<Stored, TierError> {
        records.iter().try_for_each(|record| self.write(record)).map_err(fault)?;
        Ok(Stored { kept: vec![true; records.len()], evicted: Vec::new() })
    }

    fn remove_many(&self, keys: &[PageKey]) -> Result<(), TierError> {
        for key in keys {
            match std::fs::remove_file(self.path(key)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(fault(error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn remove_prefix(&self, prefix: &[u8]) -> Result<usize, TierError> {
        let prefix: String = prefix.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut removed = 0;
        for entry in std::fs::read_dir(&self.folder).map_err(fault)? {
            let path = entry.map_err(fault)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(&prefix) {
                std::fs::remove_file(&path).map_err(fault)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn usage(&self) -> TierUsage {
        TierUsage::default()
    }
}

fn fault(error: Error) -> TierError {
    match error.kind() {
        ErrorKind::StorageFull => TierError::Full(format!("{error}; delete old records")),
        _ => TierError::Io(format!("{error}; check the folder of the files tier")),
    }
}
