//! How many ways an expression may go on with a byte.
//!
//! An intersection is followed by combining each way of one operand with each way of the others,
//! in one go that no fuel bounds. A way is one of the expression's sets of bytes, so sets that
//! share a byte are counted.

use std::collections::HashSet;

use regex_syntax::hir::{Class, Hir, HirKind};
use regex_syntax::utf8::Utf8Sequences;

/// Sets of a class of characters that are looked at; all are small pieces of the same class.
const MAX_SEQUENCES: usize = 64;

/// The different sets of bytes of an expression, `[first, last]` ranges each.
#[derive(Clone, Debug, Default)]
pub(super) struct ByteSets(HashSet<Vec<(u8, u8)>>);

/// For each byte, how many sets have it; at least 1.
pub(super) type Branches = [u64; 256];

impl ByteSets {
    /// None for what is no expression; the compiler says why.
    pub fn of_regex(regex: &str) -> Self {
        let mut sets = ByteSets::default();
        if let Ok(hir) = regex_syntax::Parser::new().parse(regex) {
            sets.add(&hir);
        }
        sets
    }

    pub fn of_text(text: &str) -> Self {
        ByteSets(text.bytes().map(|byte| vec![(byte, byte)]).collect())
    }

    pub fn extend(&mut self, other: &ByteSets) {
        self.0.extend(other.0.iter().cloned());
    }

    pub fn branches(&self) -> Branches {
        let mut branches = [0; 256];
        for set in &self.0 {
            for &(first, last) in set {
                branches[first as usize..=last as usize].iter_mut().for_each(|count| *count += 1);
            }
        }
        branches.map(|count| count.max(1))
    }

    fn add(&mut self, hir: &Hir) {
        match hir.kind() {
            HirKind::Literal(literal) => {
                self.0.extend(literal.0.iter().map(|&byte| vec![(byte, byte)]));
            }
            HirKind::Class(Class::Bytes(class)) => {
                self.0.insert(class.iter().map(|range| (range.start(), range.end())).collect());
            }
            HirKind::Class(Class::Unicode(class)) => {
                let one_byte = class.iter().filter(|range| range.start() <= '\x7f');
                let one_byte =
                    one_byte.map(|range| (range.start() as u8, range.end().min('\x7f') as u8));
                self.0.insert(one_byte.collect());
                let sequences =
                    class.iter().flat_map(|range| Utf8Sequences::new(range.start(), range.end()));
                for sequence in sequences.filter(|sequence| sequence.len() > 1).take(MAX_SEQUENCES)
                {
                    self.0.extend(
                        sequence.as_slice().iter().map(|range| vec![(range.start, range.end)]),
                    );
                }
            }
            HirKind::Repetition(repetition) => self.add(&repetition.sub),
            HirKind::Capture(capture) => self.add(&capture.sub),
            HirKind::Concat(parts) | HirKind::Alternation(parts) => {
                parts.iter().for_each(|part| self.add(part));
            }
            HirKind::Empty | HirKind::Look(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_that_share_a_byte_are_counted() {
        let most = |regex: &str, byte: u8| ByteSets::of_regex(regex).branches()[byte as usize];
        assert_eq!(most("abc", b'a'), 1);
        assert_eq!(most("[a-z]+[a-c]{3}a", b'a'), 3);
        assert_eq!(most("[a-z]+[a-c]{3}a", b'd'), 1);
        assert_eq!(most("(x|.)*x.{20}", b'x'), 2);
        assert_eq!(most("(", b'x'), 1);
    }
}
