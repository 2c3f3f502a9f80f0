//! Which files on this machine may be RocksDB's library. Nothing is opened here.
//!
//! The plain name `librocksdb.so` comes with the packages for developers only; others have the
//! version in the name (`librocksdb.so.7.8`), so folders are listed instead of names being tried.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

/// Where a system has its libraries.
pub struct SystemPlaces {
    pub folders: Vec<PathBuf>,
    /// By which the loader finds the library where it is installed for developers.
    pub loader_name: &'static str,
}

impl SystemPlaces {
    /// Where loaders look without being asked to, and where Homebrew and MacPorts install.
    pub fn usual() -> Self {
        let mut folders: Vec<_> = ["/usr/local/lib", "/usr/lib64", "/usr/lib", "/lib64", "/lib"]
            .into_iter()
            .map(PathBuf::from)
            .collect();
        // Debian's folders of one architecture.
        folders.extend(["/usr/lib", "/lib"].map(|lib| format!("{lib}/{ARCH}-linux-gnu").into()));
        if !cfg!(target_os = "macos") {
            return SystemPlaces { folders, loader_name: "librocksdb.so" };
        }
        folders.extend(["/opt/homebrew/lib", "/opt/local/lib"].map(PathBuf::from));
        SystemPlaces { folders, loader_name: "librocksdb.dylib" }
    }
}

/// Ordered by version; a file without one comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LibraryFile {
    /// Empty if its name has none.
    pub version: Vec<u32>,
    pub path: PathBuf,
}

/// Those of all `folders`, the newest first. A folder that cannot be listed has none.
pub fn library_files(folders: &[PathBuf]) -> Vec<LibraryFile> {
    let mut files: Vec<_> = folders.iter().flat_map(|folder| files_in(folder)).collect();
    files.sort_by(|a, b| b.cmp(a));
    files.dedup();
    files
}

fn files_in(folder: &Path) -> Vec<LibraryFile> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let named = paths.filter(|path| version_of(path).is_some());
    named
        .map(|path| {
            // Links are followed to the file with the whole version in its name.
            let path = path.canonicalize().unwrap_or(path);
            LibraryFile { version: version_of(&path).unwrap_or_default(), path }
        })
        .collect()
}

/// `None` if this is no name of the library.
fn version_of(path: &Path) -> Option<Vec<u32>> {
    let rest = path.file_name()?.to_str()?.strip_prefix("librocksdb")?;
    let version = rest.strip_prefix(".so").or_else(|| rest.strip_suffix(".dylib"))?;
    if version.is_empty() {
        return Some(Vec::new());
    }
    version.strip_prefix('.')?.split('.').map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_library_are_known_by_their_form() {
        let check = |name: &str, want: Option<&[u32]>| {
            assert_eq!(version_of(&Path::new("/lib").join(name)).as_deref(), want, "{name}");
        };
        check("librocksdb.so", Some(&[]));
        check("librocksdb.so.7.8.3", Some(&[7, 8, 3]));
        check("librocksdb.dylib", Some(&[]));
        check("librocksdb.10.4.dylib", Some(&[10, 4]));
        check("librocksdb.so.7.8.debug", None);
        check("librocksdb.so7", None);
        check("librocksdbjni.so", None);
        check("librocksdb.a", None);
        check("rocksdb.so", None);
    }

    #[test]
    fn the_newest_comes_first_and_links_count_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("its path");
        for name in ["librocksdb.so.9.11", "librocksdb.so.10.2.1", "librocksdb.a"] {
            std::fs::write(path.join(name), "").expect("a file");
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink("librocksdb.so.9.11", path.join("librocksdb.so"))
            .expect("a link");
        let files = library_files(&[path.clone(), path.join("no folder")]);
        let want = [(vec![10, 2, 1], "librocksdb.so.10.2.1"), (vec![9, 11], "librocksdb.so.9.11")];
        let want = want.map(|(version, name)| LibraryFile { version, path: path.join(name) });
        assert_eq!(files, want);
    }
}
