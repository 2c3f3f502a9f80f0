//! The repository's own files, as the rules see them.

use std::io;
use std::path::{Path, PathBuf};

use crate::code_text::code_only;

/// Folders with files of ours; everything else (builds, caches, editors' folders) is not looked at.
const FOLDERS: [&str; 7] = ["crates", "examples", "benches", "tools", "testdata", "docs", ".ci"];

#[derive(Default)]
pub struct Tree {
    /// Rust sources, sorted by path.
    pub sources: Vec<SourceFile>,
    /// CUDA kernels and their headers, with their text, sorted by path.
    pub kernels: Vec<(PathBuf, String)>,
    /// Every file with its size in bytes, sorted by path.
    pub files: Vec<(PathBuf, u64)>,
    /// `Cargo.toml` of each crate, with its text, sorted by path.
    pub manifests: Vec<(PathBuf, String)>,
    /// Markdown files, with their text, sorted by path.
    pub documents: Vec<(PathBuf, String)>,
}

pub struct SourceFile {
    /// From the root of the repository.
    pub path: PathBuf,
    pub text: String,
    /// `text` without comments and literals, line by line the same.
    pub code: String,
}

impl Tree {
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(root)? {
            let entry = entry?;
            let is_ours = FOLDERS.iter().any(|&folder| entry.file_name() == folder);
            if entry.file_type()?.is_file() || is_ours {
                collect(&entry.path(), &mut files)?;
            }
        }
        files.sort();
        let mut tree = Self::default();
        for path in files {
            let name = path.strip_prefix(root).expect("found below the root").to_owned();
            if name.extension().is_some_and(|ext| ext == "rs") {
                tree.sources.push(SourceFile::new(name.clone(), std::fs::read_to_string(&path)?));
            }
            if name.extension().is_some_and(|ext| ext == "cu" || ext == "cuh") {
                tree.kernels.push((name.clone(), std::fs::read_to_string(&path)?));
            }
            if name.starts_with("crates") && name.ends_with("Cargo.toml") {
                tree.manifests.push((name.clone(), std::fs::read_to_string(&path)?));
            }
            if name.extension().is_some_and(|ext| ext == "md") {
                tree.documents.push((name.clone(), std::fs::read_to_string(&path)?));
            }
            tree.files.push((name, path.metadata()?.len()));
        }
        Ok(tree)
    }
}

impl SourceFile {
    pub fn new(path: PathBuf, text: String) -> Self {
        let code = code_only(&text);
        Self { path, text, code }
    }

    /// The crate's folder name, for files below `crates/`.
    pub fn crate_name(&self) -> Option<&str> {
        let mut parts = self.path.iter().map(|part| part.to_str().unwrap_or_default());
        (parts.next() == Some("crates")).then(|| parts.next()).flatten()
    }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_symlink() || path.extension().is_some_and(|ext| ext == "gguf" || ext == "pyc") {
        return Ok(());
    }
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
