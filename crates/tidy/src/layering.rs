//! Who may know whom: crates point down only, and some doors have one key.

use std::path::Path;

use crate::finding::Finding;
use crate::tree::Tree;

/// Each crate with its height; a crate may depend on lower ones only.
const HEIGHTS: [(&str, usize); 11] = [
    ("tidy", 0),
    ("golden", 0),
    ("testkit", 1),
    ("device", 2),
    ("kernels", 3),
    ("cache", 4),
    ("model", 4),
    ("engine", 5),
    ("server", 6),
    ("terrace", 7),
    ("fuzz-targets", 7),
];

const UNSAFE_CRATES: [&str; 2] = ["device", "kernels"];
const HTTP_CRATES: [&str; 3] = ["server", "terrace", "fuzz-targets"];
const HTTP_DEPENDENCIES: [&str; 6] = ["axum", "hyper", "http", "tower", "tower-http", "reqwest"];

/// Files that decide: functions of their arguments, so that a test can replay them from a seed.
const PURE: [&str; 4] = [
    "crates/cache/src",
    "crates/engine/src/generate/plan",
    "crates/engine/src/generate/scheduler",
    "crates/engine/src/generate/sequence",
];
const IMPURE: [&str; 5] = ["std::time", "std::net", "tokio", "Instant::", "SystemTime"];

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
                     (terrace, server, engine, model and cache, kernels, device)"
                );
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

pub fn http_at_the_top(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.manifests {
        if HTTP_CRATES.contains(&crate_of(path)) {
            continue;
        }
        for (line, dependency) in dependencies(text) {
            if HTTP_DEPENDENCIES.contains(&dependency.as_str()) {
                let message = format!("{dependency} here: only the server knows HTTP; move it up");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

pub fn pure_files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.sources {
        let path = file.path.to_string_lossy();
        if !PURE.iter().any(|prefix| path.starts_with(prefix)) {
            continue;
        }
        for (index, line) in file.code.lines().enumerate() {
            for word in IMPURE.iter().filter(|&&word| line.contains(word)) {
                let message = format!("'{word}' in a file that decides; let the caller do it");
                findings.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    findings
}

/// `unsafe` stands in two crates; the roots of all others forbid it.
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
                let message = "unsafe outside device and kernels; put a safe function there";
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

fn crate_of(manifest: &Path) -> &str {
    let folder = manifest.parent().and_then(Path::file_name);
    folder.and_then(|name| name.to_str()).unwrap_or_default()
}

/// The names of a manifest's dependencies, of all kinds, each with its line.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let table: toml::Table = match manifest.parse() {
        Ok(table) => table,
        Err(_) => return Vec::new(),
    };
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let tables = kinds.iter().filter_map(|kind| table.get(*kind)?.as_table());
    let line_of = |name: &str| {
        let starts = |line: &str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        };
        manifest.lines().position(starts).map_or(0, |index| index + 1)
    };
    tables.flat_map(|table| table.keys()).map(|name| (line_of(name), name.clone())).collect()
}
