//! GBNF, the notation of llama.cpp's grammars, translated to Lark.
//!
//! GBNF knows characters only, Lark has words. A rule that never leads back to itself becomes a
//! word, so that a grammar without recursion is followed exactly as it is written; between the
//! words of the others the longest match counts, as in Lark.

mod lark_writer;
mod parser;

use parser::Parser;

/// Whether a grammar is written in GBNF: one of its lines defines a rule with `::=`.
pub fn is_gbnf(text: &str) -> bool {
    text.lines().any(|line| {
        let defined = line.split_once("::=").map(|(name, _)| name.trim());
        defined.is_some_and(|name| !name.is_empty() && name.chars().all(is_name_char))
    })
}

/// The same grammar in Lark, or what is wrong with it and where.
pub fn gbnf_to_lark(text: &str) -> Result<String, String> {
    lark_writer::write(&Parser::new(text).rules()?)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    name: String,
    place: Place,
    choices: Choices,
}

/// Alternatives, each a sequence.
type Choices = Vec<Vec<Item>>;

#[derive(Clone, Debug, PartialEq)]
struct Item {
    what: Symbol,
    /// How often it comes; `None` for once.
    repeat: Option<Repeat>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Repeat {
    min: u32,
    max: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
enum Symbol {
    Text(String),
    Class { is_negated: bool, ranges: Vec<(char, char)> },
    AnyChar,
    Rule(String, Place),
    Group(Choices),
}

/// Counted from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    line: usize,
    column: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests;
