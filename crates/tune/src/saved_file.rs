//! A file that is there whole or as it was: written under another name, brought to the disk, and
//! renamed.
//!
//! What a process that was killed leaves lasts no longer than until the next one saves: the other
//! name is always the same.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

const OTHER_NAME: &str = ".new";

pub(crate) fn save_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().expect("a file is in a folder");
    fs::create_dir_all(folder)?;
    let other = folder.join(OTHER_NAME);
    let mut written = File::create(&other)?;
    written.write_all(bytes)?;
    written.sync_all()?;
    fs::rename(&other, path)?;
    // The name is on the disk only when its folder is.
    File::open(folder)?.sync_all()
}
