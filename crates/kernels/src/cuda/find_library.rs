//! Where NVIDIA's libraries may lie.
//!
//! Looked for, in this order: the folders the user names, beside the program, on the loader's own
//! path, in the packages of the Python on the path, and where the toolkit is usually put. Nothing
//! found is no error: the library's work is then done by kernels of our own.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use libloading::Library;

/// Opens the first library with one of `names`.
pub(super) fn find_library(names: &[&str], folders: &[PathBuf]) -> Option<Library> {
    let beside = env::current_exe().ok().and_then(|program| program.parent().map(Path::to_owned));
    let first = folders.iter().cloned().chain(beside);
    let in_folders = |folders: Vec<PathBuf>| {
        let files = folders.into_iter().flat_map(|folder| names.map_paths(&folder));
        files.filter(|file| file.exists()).find_map(|file| open(&file))
    };
    in_folders(first.collect())
        .or_else(|| names.iter().find_map(|name| open(Path::new(name))))
        .or_else(|| in_folders(python_folders()))
        .or_else(|| in_folders(toolkit_folders()))
}

trait Names {
    fn map_paths(&self, folder: &Path) -> Vec<PathBuf>;
}

impl Names for [&str] {
    fn map_paths(&self, folder: &Path) -> Vec<PathBuf> {
        self.iter().map(|name| folder.join(name)).collect()
    }
}

fn open(path: &Path) -> Option<Library> {
    // SAFETY: opening runs the library's initialisers; it is NVIDIA's by its name, and the user
    // decides what lies in these folders.
    unsafe { Library::new(path) }.ok()
}

/// `nvidia/*/lib` in the site packages of each Python on the path.
fn python_folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let locations = env::split_paths(&path).filter(|folder| folder.join("python3").exists());
    let prefixes = locations.filter_map(|folder| folder.parent().map(|prefix| prefix.join("lib")));
    prefixes
        .flat_map(|lib| entries(&lib, |name| name.starts_with("python3")))
        .flat_map(|python| entries(&python.join("site-packages/nvidia"), |_| true))
        .map(|package| package.join("lib"))
        .collect()
}

fn toolkit_folders() -> Vec<PathBuf> {
    let locations = entries(Path::new("/usr/local"), |name| name.starts_with("cuda"));
    locations
        .into_iter()
        .flat_map(|home| [home.join("lib64"), home.join("targets/x86_64-linux/lib")])
        .collect()
}

/// What lies in a folder, in the order of names; nothing if it cannot be read.
fn entries(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(found) = fs::read_dir(folder) else { return Vec::new() };
    let found = found.filter_map(Result::ok);
    let wanted = found.filter(|entry| entry.file_name().to_str().is_some_and(&wanted));
    let mut paths: Vec<PathBuf> = wanted.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
