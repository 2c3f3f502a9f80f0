//! A folder that is there whole or not at all: it is filled under another name, and renamed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Removed again where it has not been finished.
pub struct NewFolder {
    target: PathBuf,
    partial: PathBuf,
}

impl NewFolder {
    /// `target` must not be there, or be empty.
    pub fn create(target: &Path) -> Result<Self, Error> {
        if target.exists() {
            let is_empty = fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none());
            if !is_empty {
                return Err(Error::FolderExists { path: target.into() });
            }
        }
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| Error::Write { path, source }
        };
        let Some(name) = target.file_name() else {
            let no_name = std::io::Error::other("it is not the name of a folder");
            return Err(failed(target)(no_name));
        };
        let name = format!(".{}.partial-{}", name.to_string_lossy(), std::process::id());
        let partial = target.with_file_name(name);
        if let Some(parent) = partial.parent() {
            fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        fs::create_dir(&partial).map_err(failed(&partial))?;
        Ok(NewFolder { target: target.into(), partial })
    }

    /// Where it is filled.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    pub fn finish(self) -> Result<(), Error> {
        let failed = |source| Error::Write { path: self.target.clone(), source };
        fs::rename(&self.partial, &self.target).map_err(failed)
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // It is not there any more where it was renamed.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_whole_or_not_at_all() {
        let home = tempfile::tempdir().expect("a folder");
        let target = home.path().join("deep/model");
        let folder = NewFolder::create(&target).expect("nothing is there");
        fs::write(folder.path().join("a"), "1").expect("writable");
        assert!(!target.exists());
        drop(folder);
        assert_eq!(fs::read_dir(home.path().join("deep")).expect("readable").count(), 0);

        let folder = NewFolder::create(&target).expect("nothing is there");
        fs::write(folder.path().join("a"), "1").expect("writable");
        folder.finish().expect("it is renamed");
        assert_eq!(fs::read_to_string(target.join("a")).expect("whole"), "1");
        let message = NewFolder::create(&target).err().expect("it is there").to_string();
        assert!(message.contains("is there already"), "{message}");
    }
}
