//! Words that have been here and do not come back: STYLE.md's table of them, held everywhere.

use std::collections::BTreeMap;
use std::path::Path;

use crate::finding::Finding;
use crate::tree::Tree;

const TABLE_HEADER: &str = "| not | say |";

/// No name, comment, string or document has a word of the table.
pub fn retired_words(tree: &Tree) -> Vec<Finding> {
    let style = tree.documents.iter().find(|(path, _)| path.as_path() == Path::new("STYLE.md"));
    let retired = style.map(|(_, text)| table(text)).unwrap_or_default();
    let sources = tree.sources.iter().map(|file| (&file.path, &file.text));
    let others = [&tree.kernels, &tree.documents].into_iter().flatten();
    let texts = sources.chain(others.map(|(path, text)| (path, text)));
    let mut findings = Vec::new();
    for (path, text) in texts.filter(|(path, _)| path.as_path() != Path::new("STYLE.md")) {
        for (index, line) in text.lines().enumerate() {
            for word in words(line) {
                if let Some(instead) = retired.get(word.as_str()) {
                    let message = format!("'{word}' is retired; say: {instead}");
                    findings.push(Finding::new(path, index + 1, message));
                }
            }
        }
    }
    findings
}

/// The words of the table, each with what to say instead.
fn table(style: &str) -> BTreeMap<&str, &str> {
    let rows = style.lines().skip_while(|line| *line != TABLE_HEADER).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_matches('|').split_once('|'));
    let words = cells.flat_map(|(words, instead)| {
        words.split('`').skip(1).step_by(2).map(move |word| (word, instead.trim()))
    });
    words.collect()
}

/// The words of a line in lower case, names taken apart: `KvCache` as `kv`, `cache`.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for letter in line.chars() {
        let begins = !letter.is_alphabetic() || (letter.is_uppercase() && before.is_lowercase());
        if begins && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_alphabetic() {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}
