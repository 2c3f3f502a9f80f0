//! Files that decide are functions of their arguments, so that a test can replay them from a seed.

use std::path::Path;

use crate::finding::Finding;
use crate::tree::Tree;

/// Files, and folders with all that is in them.
const DECIDING: [&str; 13] = [
    "crates/cache/src/kv",
    "crates/cache/src/placement",
    "crates/cache/src/policy",
    "crates/cache/src/reference",
    "crates/cache/src/users",
    "crates/embedding/src/feed/row_batch.rs",
    "crates/embedding/src/feed/topic_queue.rs",
    "crates/embedding/src/feed/update_batcher.rs",
    "crates/engine/src/generate/step_plan.rs",
    "crates/engine/src/generate/scheduler",
    "crates/engine/src/generate/sequence.rs",
    "crates/engine/src/generate/sessions.rs",
    "crates/tune/src/plan",
];

/// Clocks, networks, files and threads.
const EFFECTS: [&str; 12] = [
    "std::time",
    "Instant::",
    "SystemTime",
    "std::net",
    "tokio",
    "std::fs",
    "std::io",
    "File::",
    "std::env",
    "std::process",
    "thread::spawn",
    "thread::sleep",
];

pub fn deciding_files_have_no_effects(tree: &Tree) -> Vec<Finding> {
    let decides = |path: &Path| DECIDING.iter().any(|deciding| path.starts_with(deciding));
    let message = |effect: &str| format!("'{effect}' in a file that decides; let the caller do it");
    let deciding = tree.sources.iter().filter(|file| decides(&file.path));
    deciding.flat_map(|file| Finding::of_words(&file.path, &file.code, &EFFECTS, message)).collect()
}

/// The rule above names files that exist: a moved file stays under it.
pub fn deciding_files_exist(tree: &Tree) -> Vec<Finding> {
    let is_there = |path: &str| tree.sources.iter().any(|file| file.path.starts_with(path));
    let missing = DECIDING.iter().filter(|path| !is_there(path));
    let message = "no source here; name where it has moved to in crates/tidy/src/deciding_files.rs";
    missing.map(|path| Finding::new(Path::new(path), 0, message.to_owned())).collect()
}
