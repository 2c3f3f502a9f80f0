//! How many bytes a clone costs.

use crate::finding::Finding;
use crate::tree::Tree;

const FILE_BYTES: u64 = 2 << 20;
const TESTDATA_BYTES: u64 = 24 << 20;
/// Two thirds of it are golden numbers and generated kernels.
const REPOSITORY_BYTES: u64 = 40 << 20;

/// Models and other large files are pulled, never committed.
pub fn file_bytes(tree: &Tree) -> Vec<Finding> {
    let large = tree.files.iter().filter(|(_, bytes)| *bytes > FILE_BYTES);
    large
        .map(|(path, bytes)| {
            let message =
                format!("{bytes} bytes, the limit is {FILE_BYTES}; make it smaller, or pull it");
            Finding::new(path, 0, message)
        })
        .collect()
}

pub fn repository_bytes(tree: &Tree) -> Vec<Finding> {
    let limits = [("testdata", TESTDATA_BYTES), ("", REPOSITORY_BYTES)];
    let mut findings = Vec::new();
    for (folder, limit) in limits {
        let inside = tree.files.iter().filter(|(path, _)| path.starts_with(folder));
        let bytes: u64 = inside.map(|(_, bytes)| bytes).sum();
        if bytes > limit {
            let folder = if folder.is_empty() { "." } else { folder };
            let message = format!("{bytes} bytes together, the limit is {limit}; keep less");
            findings.push(Finding::new(folder.as_ref(), 0, message));
        }
    }
    findings
}
