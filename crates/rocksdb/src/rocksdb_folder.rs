//! Whether a folder holds a database of RocksDB, known without the library.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Names the file that describes the database.
pub(crate) const CURRENT: &str = "CURRENT";

pub fn is_rocksdb_folder(path: &Path) -> bool {
    let mut begin = [0; b"MANIFEST-".len()];
    let read = File::open(path.join(CURRENT)).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && &begin == b"MANIFEST-"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(current: Option<&str>, want: bool) {
        let folder = tempfile::tempdir().expect("a folder");
        if let Some(text) = current {
            std::fs::write(folder.path().join(CURRENT), text).expect("a file");
        }
        assert_eq!(is_rocksdb_folder(folder.path()), want, "{current:?}");
    }

    #[test]
    fn a_folder_is_known_by_its_current_file() {
        check(Some("MANIFEST-000005\n"), true);
        check(Some("MANIFEST"), false);
        check(Some(""), false);
        check(None, false);
        assert!(!is_rocksdb_folder(Path::new("/no/such/folder")));
    }
}
