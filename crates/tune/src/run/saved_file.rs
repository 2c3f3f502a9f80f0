//! A file that is there whole or as it was: written under another name, brought to the disk, and
//! renamed.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub(crate) fn save_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().expect("a file is in a folder");
    std::fs::create_dir_all(folder)?;
    let mut written = tempfile::NamedTempFile::new_in(folder)?;
    written.write_all(bytes)?;
    written.as_file().sync_all()?;
    written.persist(path)?;
    // The name is on the disk only when its folder is.
    File::open(folder)?.sync_all()
}
