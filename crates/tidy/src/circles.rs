//! Files of a crate that import each other in a circle: none can be read or moved alone.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::tree::{SourceFile, Tree};
use crate::use_paths::{UsePath, use_paths};

/// No file imports, directly or through others, a file that imports it. A `mod.rs` is seen through
/// where it only names what its folder has; tests are not looked at.
pub fn no_circles(tree: &Tree) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in &tree.sources {
        if let Some(name) = file.crate_name()
            && is_production(file)
        {
            crates.entry(name).or_default().push(file);
        }
    }
    crates.into_values().flat_map(|files| circles(&files)).collect()
}

fn is_production(file: &SourceFile) -> bool {
    let mut parts = file.path.iter().skip(2);
    parts.next().is_some_and(|part| part == "src")
        && !file.path.iter().any(|part| part == "tests" || part == "tests.rs")
}

/// The modules of a crate, by their paths.
struct Modules<'a> {
    files: &'a [&'a SourceFile],
    by_path: BTreeMap<Vec<String>, usize>,
    uses: Vec<Vec<UsePath>>,
}

fn circles(files: &[&SourceFile]) -> Vec<Finding> {
    let by_path = files.iter().enumerate().map(|(index, file)| (module_path(file), index));
    let uses = files.iter().map(|file| use_paths(&file.code)).collect();
    let modules = Modules { files, by_path: by_path.collect(), uses };
    let edges: Vec<Vec<usize>> = (0..files.len()).map(|file| modules.imports(file)).collect();
    let mut findings = Vec::new();
    for group in strong_groups(&edges) {
        if group.len() > 1 {
            findings.push(Finding::new(&files[group[0]].path, 0, circle(files, &edges, &group)));
        }
    }
    findings
}

/// What is wrong: every import from one file of the group to another.
fn circle(files: &[&SourceFile], edges: &[Vec<usize>], group: &[usize]) -> String {
    let name = |file: usize| module_path(files[file]).join("::");
    let imports = group.iter().flat_map(|&from| {
        let inside = edges[from].iter().filter(|to| group.contains(to));
        inside.map(move |&to| format!("{} imports {}", name(from), name(to)))
    });
    let imports: Vec<_> = imports.collect();
    format!("files import each other in a circle: {}", imports.join(", "))
}

fn module_path(file: &SourceFile) -> Vec<String> {
    let parts = file.path.with_extension("");
    let mut parts: Vec<_> =
        parts.iter().skip(3).map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|part| ["mod", "lib", "main"].contains(&part.as_str())) {
        parts.pop();
    }
    parts
}

impl Modules<'_> {
    /// The files that a file imports from.
    fn imports(&self, file: usize) -> Vec<usize> {
        let module = module_path(self.files[file]);
        let mut found = Vec::new();
        for path in &self.uses[file] {
            let Some(absolute) = self.absolute(&module, &path.segments) else { continue };
            let Some(target) = self.target(&absolute, 0) else { continue };
            // What a mod.rs passes on from its own folder is not its own business.
            let is_passed_on =
                path.is_public && module_path(self.files[target]).starts_with(&module);
            if target != file && !is_passed_on && !found.contains(&target) {
                found.push(target);
            }
        }
        found
    }

    /// The path from the crate's root; `None` for other crates.
    fn absolute(&self, module: &[String], segments: &[String]) -> Option<Vec<String>> {
        let mut path: Vec<String> = match segments.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => module[..module.len().checked_sub(1)?].to_vec(),
            first => {
                let mut child = module.to_vec();
                child.push(first.to_owned());
                self.by_path.contains_key(&child).then_some(child)?
            }
        };
        for segment in &segments[1..] {
            match segment.as_str() {
                "super" => {
                    path.pop()?;
                }
                _ => path.push(segment.clone()),
            }
        }
        Some(path)
    }

    /// The file in which the thing at a path stands.
    fn target(&self, path: &[String], depth: usize) -> Option<usize> {
        let length = (0..=path.len()).rev().find(|&n| self.by_path.contains_key(&path[..n]))?;
        let file = self.by_path[&path[..length]];
        let Some(name) = path.get(length).filter(|_| depth < 8) else { return Some(file) };
        let module = &path[..length];
        let passed_on = self.uses[file].iter().find(|other| {
            other.is_public && other.segments.last().is_some_and(|last| last == name)
        });
        let passed_on = passed_on.and_then(|other| self.absolute(module, &other.segments));
        match passed_on {
            Some(other) if other != path => self.target(&other, depth + 1),
            _ => Some(file),
        }
    }
}

/// Groups of nodes that reach each other (Kosaraju).
fn strong_groups(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut back = vec![Vec::new(); edges.len()];
    for (from, targets) in edges.iter().enumerate() {
        for &to in targets {
            back[to].push(from);
        }
    }
    let mut order = Vec::new();
    let mut seen = vec![false; edges.len()];
    for node in 0..edges.len() {
        visit(node, edges, &mut seen, &mut order);
    }
    let mut seen = vec![false; edges.len()];
    let mut groups = Vec::new();
    for node in order.into_iter().rev() {
        let mut group = Vec::new();
        visit(node, &back, &mut seen, &mut group);
        group.sort_unstable();
        groups.push(group);
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// Adds what `node` reaches and was not seen, each after all it reaches.
fn visit(node: usize, edges: &[Vec<usize>], seen: &mut [bool], order: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[node], true) {
        return;
    }
    for &next in &edges[node] {
        visit(next, edges, seen, order);
    }
    order.push(node);
}
