//! Words that must stand in a file, and words that must not.

use crate::finding::Finding;
use crate::tree::Tree;

/// Marks of work left for later. Written in halves, or this file would find itself.
const UNFINISHED: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("db", "g!("),
];

/// Words that say nothing about what a type is.
const EMPTY_WORDS: [&str; 10] =
    ["Manager", "Helper", "Helpers", "Util", "Utils", "Base", "Impl", "Wrapper", "V1", "V2"];

const TYPE_KEYWORDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// Work is finished, or it stands in the list of limits; it does not hide in a comment.
pub fn unfinished_work(tree: &Tree) -> Vec<Finding> {
    let message = |word: &str| format!("'{word}': finish it, or say in the docs what is not there");
    let sources = tree.sources.iter();
    sources
        .flat_map(|file| Finding::of_words(&file.path, &file.text, &UNFINISHED, message))
        .collect()
}

/// Every file opens with a comment that says what it is.
pub fn module_comments(tree: &Tree) -> Vec<Finding> {
    let opens_with_comment = |text: &str| text.starts_with("//! ");
    let bare = tree.sources.iter().filter(|file| !opens_with_comment(&file.text));
    bare.map(|file| {
        let message = "no module comment; begin with `//!`: what it is, what it is not, what holds";
        Finding::new(&file.path, 1, message.to_owned())
    })
    .collect()
}

/// A type's name says what it is.
pub fn type_names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.sources {
        for (index, line) in file.code.lines().enumerate() {
            let Some(name) = declared_type(line) else { continue };
            let words = camel_words(name);
            for word in EMPTY_WORDS.iter().filter(|&&word| words.contains(&word)) {
                let message = format!("type {name}: '{word}' says nothing; name what it does");
                findings.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    findings
}

/// The name after the first keyword that declares a type on this line of code.
fn declared_type(line: &str) -> Option<&str> {
    let mut words = line.split(|c: char| !(c == '_' || c.is_alphanumeric()));
    words.find(|word| TYPE_KEYWORDS.contains(word))?;
    words.next().filter(|name| name.starts_with(|c: char| c.is_uppercase()))
}

/// `PagePoolV2` as `Page`, `Pool`, `V2`.
fn camel_words(name: &str) -> Vec<&str> {
    let mut starts: Vec<usize> =
        name.char_indices().filter(|(_, c)| c.is_uppercase()).map(|(index, _)| index).collect();
    starts.push(name.len());
    starts.windows(2).map(|pair| &name[pair[0]..pair[1]]).collect()
}
