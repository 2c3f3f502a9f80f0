//! Which crates may depend on which, and which may be unsafe.

use std::path::Path;

use crate::finding::Finding;
use crate::manifest::{crate_of, dependencies};
use crate::tree::Tree;

/// Each crate with its height; a crate may depend on lower ones only.
const HEIGHTS: [(&str, usize); 17] = [
    ("tidy", 0),
    ("datasets", 0),
    ("golden", 0),
    ("rocksdb", 0),
    ("testkit", 1),
    ("device", 2),
    ("kernels", 3),
    ("cache", 4),
    ("model", 4),
    ("tiers", 5),
    ("tune", 5),
    ("embedding", 6),
    ("engine", 7),
    ("onnx", 8),
    ("server", 8),
    ("terrace", 9),
    ("fuzz-targets", 9),
];

const UNSAFE_CRATES: [&str; 3] = ["device", "kernels", "rocksdb"];

pub fn layers_point_down(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.manifests {
        let name = crate_of(path);
        let Some(height) = height_of(name) else {
            let message = "a crate without a height; say in crates/tidy/src/layering.rs where it \
                           stands, and in ARCHITECTURE.md why";
            findings.push(Finding::new(path, 0, message.to_owned()));
            continue;
        };
        for (line, dependency) in dependencies(text) {
            let Some(below) = dependency.strip_prefix("terrace-") else { continue };
            if height_of(below).is_none_or(|lower| lower >= height) {
                let message = format!(
                    "{name} must not depend on {below}: dependencies point down \
                     (terrace, server, engine, embedding, tiers and tune, model and cache, \
                     kernels, device)"
                );
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

/// `unsafe` stands in three crates; the roots of all others forbid it.
pub fn unsafe_in_its_cell(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.sources {
        let Some(name) = file.crate_name() else { continue };
        if UNSAFE_CRATES.contains(&name) {
            continue;
        }
        let forbids = file.text.contains("#![forbid(unsafe_code)]");
        if is_crate_root(&file.path) && !forbids {
            let message = "add `#![forbid(unsafe_code)]` below the module comment";
            findings.push(Finding::new(&file.path, 1, message.to_owned()));
        }
        for (index, line) in file.code.lines().enumerate() {
            let mut words = line.split(|c: char| !(c == '_' || c.is_alphanumeric()));
            if words.any(|word| word == "unsafe") {
                let message =
                    "unsafe outside device, kernels and rocksdb; put a safe function there";
                findings.push(Finding::new(&file.path, index + 1, message.to_owned()));
            }
        }
    }
    findings
}

fn is_crate_root(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name);
    let is_root = path.ends_with("lib.rs") || path.ends_with("main.rs");
    is_root && folder.is_some_and(|folder| folder == "src")
}

fn height_of(name: &str) -> Option<usize> {
    HEIGHTS.iter().find(|(known, _)| *known == name).map(|&(_, height)| height)
}
