//! The gin file that says what a checkpoint does not.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use terrace_model::hstu::recsys_args::{RecsysArgs, UnknownKeys};

#[derive(Args, Debug)]
pub struct GinChoice {
    /// The gin file that the model was trained with. Left out: config.gin in the checkpoint's
    /// folder, where it is.
    #[arg(long, value_name = "FILE")]
    pub gin_config_file: Option<PathBuf>,

    /// Report keys of the gin file that recsys-examples does not have, and go on.
    #[arg(long)]
    skip_unknown_keys: bool,
}

impl GinChoice {
    /// What checkpoints that are written here are described by.
    pub const OWN: &str = "config.gin";

    /// The one that is named, or lies in the folder.
    pub fn file(&self, folder: &Path) -> Result<PathBuf> {
        let own = folder.join(Self::OWN);
        match &self.gin_config_file {
            Some(file) => Ok(file.clone()),
            None if own.is_file() => Ok(own),
            None => bail!(
                "a checkpoint does not say how many heads and which features it has; give the gin \
                 file that it was trained with (--gin_config_file)"
            ),
        }
    }

    /// Reads a file, and reports keys that are skipped.
    pub fn recsys_args(&self, gin: &Path) -> Result<RecsysArgs> {
        let unknown = match self.skip_unknown_keys {
            true => UnknownKeys::Skip,
            false => UnknownKeys::Refuse,
        };
        let (args, skipped) = RecsysArgs::open(gin, unknown)?;
        for key in skipped {
            eprintln!("note: the key {key} is not known, and has no effect");
        }
        Ok(args)
    }
}
