//! Where a run's models go, and in which form: a PEFT adapter, or a whole model.

use std::fs;
use std::path::{Path, PathBuf};

use terrace_kernels::Ops;
use terrace_model::DecoderSpec;
use terrace_tune::run::{SaveModel, SavedAt};
use terrace_tune::{Error, TunedModel};

/// Folders below `out_dir`: `step-00000010`, `best` and `final`.
pub struct SavedModels<'a> {
    pub out_dir: &'a Path,
    pub spec: &'a DecoderSpec,
    /// The model that was tuned, as adapters name it.
    pub base_model: String,
    /// A folder whose tokenizer and configuration belong to a whole model.
    pub source: Option<&'a Path>,
}

impl SavedModels<'_> {
    /// Takes away what a run that was killed has left; a model that was about to be replaced is
    /// there again.
    pub fn tidy(&self) -> Result<(), Error> {
        let write = |error| Error::Write { path: self.out_dir.into(), error };
        for entry in fs::read_dir(self.out_dir).map_err(write)? {
            let path = entry.map_err(write)?.path();
            let hidden = path.file_name().and_then(|name| name.to_str()?.strip_prefix('.'));
            let Some(name) = hidden.map(|name| name.trim_start_matches('.')) else { continue };
            if !["step-", "best.", "final.", "sampled."].iter().any(|ours| name.starts_with(ours)) {
                continue;
            }
            let replaced = name.strip_suffix(".old").map(|name| self.out_dir.join(name));
            match replaced.filter(|folder| !folder.exists()) {
                Some(folder) => fs::rename(&path, folder).map_err(write)?,
                None => remove(&path).map_err(write)?,
            }
        }
        Ok(())
    }
}

impl SaveModel for SavedModels<'_> {
    fn save(&self, model: &mut TunedModel, ops: &Ops, at: SavedAt) -> Result<PathBuf, Error> {
        let name = match at {
            SavedAt::Step(step) => format!("step-{step:08}"),
            SavedAt::Best => "best".to_owned(),
            SavedAt::Last => "final".to_owned(),
            SavedAt::Sampled => "sampled".to_owned(),
        };
        let folder = self.out_dir.join(&name);
        let new = self.out_dir.join(format!(".{name}.new"));
        let old = self.out_dir.join(format!(".{name}.old"));
        let write = |path: &Path, error| Error::Write { path: path.into(), error };
        // What a run that was killed has left.
        for left in [&new, &old] {
            remove(left).map_err(|error| write(left, error))?;
        }
        let ops = ops.tuning()?;
        match self.source {
            Some(source) => model.write_whole(&ops, source, &new)?,
            None => model.write_adapter(&ops, self.spec, &self.base_model, &new)?,
        }
        if folder.exists() {
            fs::rename(&folder, &old).map_err(|error| write(&folder, error))?;
        }
        fs::rename(&new, &folder).map_err(|error| write(&folder, error))?;
        remove(&old).map_err(|error| write(&old, error))?;
        Ok(folder)
    }
}

fn remove(folder: &Path) -> std::io::Result<()> {
    if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) }
}
