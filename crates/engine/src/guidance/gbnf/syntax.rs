//! The parts of a GBNF grammar.

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) place: SourcePosition,
    pub(super) choices: Choices,
}

/// Alternatives, each a sequence.
pub(super) type Choices = Vec<Vec<Item>>;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) what: Symbol,
    /// How often it comes; `None` for once.
    pub(super) repeat: Option<Repeat>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Repeat {
    pub(super) min: u32,
    pub(super) max: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Symbol {
    Text(String),
    Class { is_negated: bool, ranges: Vec<(char, char)> },
    AnyChar,
    Rule(String, SourcePosition),
    Group(Choices),
}

/// Counted from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SourcePosition {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl std::fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Whether a rule's name may have it.
pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}
