//! Documents name files that exist: a map that lies is worse than none.

use std::path::Path;

use crate::finding::Finding;
use crate::tree::Tree;

/// Links to files of ours, and paths in backticks below a crate's `src` (with or without
/// `crates/` in front), lead somewhere.
pub fn documents_name_real_files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.documents {
        let folder = path.parent().unwrap_or(Path::new(""));
        for (index, line) in text.lines().enumerate() {
            let links = links(line).filter(|link| !exists(tree, &folder.join(link)));
            let sources = quoted(line).filter(|name| {
                name.contains("/src/")
                    && !exists(tree, Path::new(name))
                    && !exists(tree, &Path::new("crates").join(name))
            });
            for name in links.chain(sources) {
                let message = format!("there is no {name}; say where it is now");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

fn exists(tree: &Tree, path: &Path) -> bool {
    let clean: std::path::PathBuf = path.components().collect();
    tree.files.iter().any(|(file, _)| *file == clean)
}

/// The local targets of `[text](target#part)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter_map(|target| target.split('#').next());
    files.filter(|file| !file.is_empty() && !file.contains("://"))
}

/// What stands between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}
