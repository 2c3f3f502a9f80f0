//! A checkpoint of recsys-examples, opened to be computed with.

use std::path::Path;

use super::hstu_checkpoint::HstuCheckpoint;
use crate::error::Error;
use crate::hstu::hstu_files::HstuFiles;
use crate::hstu::recsys_args::RecsysArgs;

impl HstuFiles {
    /// Opens a folder with `torch_module/` and `dynamicemb_module/` as a gin file describes it.
    /// Files are mapped; scores are those of the folder that `terrace rank convert` makes of it,
    /// bit for bit.
    pub fn open_recsys(args: &RecsysArgs, checkpoint_dir: &Path) -> Result<Self, Error> {
        let name = checkpoint_dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| checkpoint_dir.display().to_string());
        HstuCheckpoint::from_recsys(args, checkpoint_dir)?.into_files(name)
    }
}
