//! Numbers that the README gives were measured: each stands in the bench file that it points to.

use std::path::Path;

use crate::finding::Finding;
use crate::tree::Tree;

const README: &str = "README.md";
const SECTION: &str = "## Speed";

/// Every number of the README's section on speed stands in the file of `benches/` that is linked
/// next behind it.
pub fn readme_numbers_stand_in_benches(tree: &Tree) -> Vec<Finding> {
    let text_of = |path: &str| {
        let mut documents = tree.documents.iter();
        documents.find(|(known, _)| known == Path::new(path)).map(|(_, text)| text.as_str())
    };
    let Some(readme) = text_of(README) else { return Vec::new() };
    let lines = readme.lines().enumerate().skip_while(|(_, line)| *line != SECTION).skip(1);
    let lines: Vec<(usize, &str)> =
        lines.take_while(|(_, line)| !line.starts_with("## ")).collect();
    let mut findings = Vec::new();
    if lines.is_empty() {
        let message = format!("there is no section {SECTION:?} with what was measured");
        findings.push(Finding::new(Path::new(README), 0, message));
    }
    let mut first = 0;
    for last in 0..lines.len() {
        let Some(bench) = bench_link(lines[last].1) else { continue };
        // Links to files that do not exist are found by another rule.
        let measured = text_of(bench).unwrap_or_default();
        let known: Vec<&str> = numbers(measured).collect();
        for (index, line) in &lines[first..=last] {
            let unknown = numbers(line).filter(|number| !known.contains(number));
            findings.extend(unknown.map(|number| {
                let message = format!("{number} does not stand in {bench}; measure it there");
                Finding::new(Path::new(README), index + 1, message)
            }));
        }
        first = last + 1;
    }
    findings.extend(lines[first..].iter().filter(|(_, line)| numbers(line).next().is_some()).map(
        |(index, _)| {
            let message = "numbers without a link to a file of benches/ behind them".to_owned();
            Finding::new(Path::new(README), index + 1, message)
        },
    ));
    findings
}

/// The file of `benches/` that a line links to.
fn bench_link(line: &str) -> Option<&str> {
    let target = line.split("](").nth(1)?.split(')').next()?;
    target.starts_with("benches/").then_some(target)
}

/// Numbers that are words by themselves: `1,688`, `82%`, `0.5`; not those of names (`H200`).
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let is_of_word =
        |c: char| c.is_alphanumeric() || matches!(c, ',' | '.' | '%' | '_' | '-' | '/');
    let words = text.split(move |c: char| !is_of_word(c));
    let words = words.map(|word| word.trim_matches(|c: char| matches!(c, ',' | '.' | '-')));
    words.filter(|word| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | '.' | '%'))
    })
}
