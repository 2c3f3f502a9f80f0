//! How long a file, a function and a line may be.
//!
//! Limits, not targets: a good file has 80 to 300 lines, and the median shows whether that holds.

use std::path::Path;

use crate::finding::Finding;
use crate::tree::{SourceFile, Tree};

const FILE_LINES: usize = 600;
const MEDIAN_LINES: usize = 200;
const FUNCTION_LINES: usize = 70;
const LINE_COLUMNS: usize = 100;

pub fn file_lines(tree: &Tree) -> Vec<Finding> {
    let too_long = texts(tree).map(|(path, text)| (path, text.lines().count()));
    too_long
        .filter(|&(_, lines)| lines > FILE_LINES)
        .map(|(path, lines)| {
            let message = format!("{lines} lines, the limit is {FILE_LINES}; split it by concept");
            Finding::new(path, 0, message)
        })
        .collect()
}

pub fn median_lines(tree: &Tree) -> Vec<Finding> {
    let mut lines: Vec<usize> = tree.sources.iter().map(|f| f.text.lines().count()).collect();
    lines.sort_unstable();
    let Some(&median) = lines.get(lines.len() / 2) else { return Vec::new() };
    if median < MEDIAN_LINES {
        return Vec::new();
    }
    let message = format!(
        "the median file has {median} lines, it must stay under {MEDIAN_LINES}; \
         give each concept its own file"
    );
    vec![Finding::new("crates".as_ref(), 0, message)]
}

pub fn line_columns(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in texts(tree) {
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LINE_COLUMNS {
                let message = format!("{columns} columns, the limit is {LINE_COLUMNS}; break it");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

/// Rust and CUDA.
fn texts(tree: &Tree) -> impl Iterator<Item = (&Path, &str)> {
    let sources = tree.sources.iter().map(|file| (file.path.as_path(), file.text.as_str()));
    sources.chain(tree.kernels.iter().map(|(path, text)| (path.as_path(), text.as_str())))
}

pub fn function_lines(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.sources {
        for function in functions(file) {
            let lines = function.last_line - function.first_line + 1;
            if lines > FUNCTION_LINES {
                let message = format!(
                    "fn {} has {lines} lines, the limit is {FUNCTION_LINES}; give its parts names",
                    function.name
                );
                findings.push(Finding::new(&file.path, function.first_line, message));
            }
        }
    }
    findings
}

struct Function {
    name: String,
    first_line: usize,
    last_line: usize,
}

/// Every `fn` with a body, from the line of its `fn` to its closing brace.
fn functions(file: &SourceFile) -> Vec<Function> {
    let code: Vec<char> = file.code.chars().collect();
    let mut found = Vec::new();
    for start in 0..code.len() {
        let before = start.checked_sub(1).map_or(' ', |index| code[index]);
        let is_fn = code[start..].starts_with(&['f', 'n', ' ']) && !is_word(before);
        if !is_fn {
            continue;
        }
        let Some(end) = body_end(&code[start..]) else { continue };
        found.push(Function {
            name: code[start + 3..].iter().take_while(|&&c| is_word(c)).collect(),
            first_line: line_of(&code, start),
            last_line: line_of(&code, start + end),
        });
    }
    found
}

/// Where the body of the function that `code` starts with ends; `None` if it has none.
///
/// The body is the first brace outside `(…)` and `[…]`, where an array type may hide a `;`.
fn body_end(code: &[char]) -> Option<usize> {
    let mut brackets = 0i32;
    let mut braces = 0i32;
    for (index, c) in code.iter().enumerate() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces <= 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

fn line_of(code: &[char], at: usize) -> usize {
    1 + code[..at].iter().filter(|&&c| c == '\n').count()
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
