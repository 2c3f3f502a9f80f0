//! The paths that a file imports, one for each name.

/// A path as it is written, segment by segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsePath {
    pub segments: Vec<String>,
    pub is_public: bool,
}

/// All imports of `code`, which has no comments and no literals. What stands in its tests is left
/// out.
pub fn use_paths(code: &str) -> Vec<UsePath> {
    let mut paths = Vec::new();
    let mut rest = without_tests(code);
    while let Some((is_public, after)) = next_use(rest) {
        let Some((tree, behind)) = after.split_once(';') else { break };
        let mut found = Vec::new();
        expand(tree, &mut Vec::new(), &mut found);
        paths.extend(found.into_iter().map(|segments| UsePath { segments, is_public }));
        rest = behind;
    }
    paths
}

/// Up to the module of tests that a file may end with.
fn without_tests(code: &str) -> &str {
    let marks = code.match_indices("#[cfg(test)]");
    let inline = marks.map(|(at, _)| at).find(|&at| {
        let item = code[at..].lines().nth(1).unwrap_or_default().trim();
        item.contains("mod ") && item.ends_with('{')
    });
    &code[..inline.unwrap_or(code.len())]
}

/// Whether the next import is public, and what follows its `use`.
fn next_use(code: &str) -> Option<(bool, &str)> {
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let start = line.trim_start();
        let (visibility, item) = match start.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => {
                (true, rest.split_once(')').map_or("", |it| it.1))
            }
            Some(rest) => (true, rest),
            None => (false, start),
        };
        if let Some(tree) = item.trim_start().strip_prefix("use ") {
            let offset = at + (line.len() - start.len()) + (start.len() - tree.len());
            return Some((visibility, &code[offset..]));
        }
        at += line.len();
    }
    None
}

/// `a::{b, c::{self, D as E}}` as `a::b`, `a::c`, `a::c::D`.
fn expand(tree: &str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let depth = prefix.len();
    let mut rest = tree;
    loop {
        if let Some(inside) = rest.strip_prefix('{') {
            let inside = inside.trim_end().strip_suffix('}').unwrap_or(inside);
            for part in split_top(inside) {
                expand(part, prefix, found);
            }
            break;
        }
        match rest.split_once("::") {
            Some((segment, behind)) if !segment.contains('{') => {
                prefix.push(segment.trim().to_owned());
                rest = behind.trim_start();
            }
            _ => {
                let name = rest.split(" as ").next().unwrap_or_default().trim();
                if !name.is_empty() {
                    let mut path = prefix.clone();
                    if name != "self" {
                        path.push(name.to_owned());
                    }
                    found.push(path);
                }
                break;
            }
        }
    }
    prefix.truncate(depth);
}

/// At the commas that stand in no braces.
fn split_top(list: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}
