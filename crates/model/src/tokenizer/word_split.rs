//! Cuts a text into words one by one, as the pre-tokenizers of the `tokenizers` crate do with all
//! of a text at once.
//!
//! A pattern is searched from the end of the last match in the whole text: it sees all that
//! follows, and it may not look at what stands before. So no match depends on where a reader
//! begins or ends, and a list of matches is never kept.

use regex_automata::Input;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

/// One step of a pre-tokenizer. Each match becomes a word, and so does what lies between two.
pub enum WordSplit {
    Pattern(Pattern),
    /// Every digit alone.
    EachDigit,
    /// Digits in a row.
    Digits,
}

/// An expression that takes time and memory by its own length, not by the text's.
pub struct Pattern {
    regex: Regex,
}

/// The end of nearly all such patterns: white space, less its last character where a word follows.
/// It looks ahead, which an automaton cannot, and is done by hand.
const LAST_SPACES: &str = r"|\s+(?!\S)|\s+";
/// The automaton's pattern for it.
const SPACES: usize = 1;

impl Pattern {
    /// `None` for an expression that looks around itself, or that matches nothing at all.
    pub fn new(expression: &str) -> Option<Self> {
        let head = expression.strip_suffix(LAST_SPACES);
        let checked = head.unwrap_or(expression);
        let inner = syntax::parse(checked.strip_suffix('$').unwrap_or(checked)).ok()?;
        let is_plain = inner.properties().look_set().is_empty();
        let takes_text = inner.properties().minimum_len().is_some_and(|length| 0 < length);
        if !is_plain || !takes_text {
            return None;
        }
        let regex = match head {
            Some(head) => Regex::new_many(&[head, r"\s+"]),
            None => Regex::new(expression),
        };
        regex.ok().map(|regex| Pattern { regex })
    }

    /// The next match from `start` on.
    fn find(&self, text: &str, start: usize) -> Option<(usize, usize)> {
        let found = self.regex.find(Input::new(text).range(start..))?;
        let mut end = found.end();
        if found.pattern().as_usize() == SPACES && end < text.len() {
            let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
            if found.start() < end - last {
                end -= last;
            }
        }
        Some((found.start(), end))
    }
}

impl WordSplit {
    /// Calls `visit` for each word in order, until it fails.
    pub fn try_each_word<'t, E>(
        &self,
        text: &'t str,
        visit: &mut dyn FnMut(&'t str) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut done = 0;
        while let Some((start, end)) = self.find(text, done) {
            if done < start {
                visit(&text[done..start])?;
            }
            visit(&text[start..end])?;
            done = end;
        }
        if done < text.len() {
            visit(&text[done..])?;
        }
        Ok(())
    }

    fn find(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let digit = || Some(from + text[from..].find(char::is_numeric)?);
        let length = |start: usize| text[start..].chars().next().map_or(0, char::len_utf8);
        match self {
            WordSplit::Pattern(pattern) => pattern.find(text, from),
            WordSplit::EachDigit => digit().map(|start| (start, start + length(start))),
            WordSplit::Digits => digit().map(|start| {
                let rest = &text[start..];
                (start, start + rest.find(|c: char| !c.is_numeric()).unwrap_or(rest.len()))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::collected;

    #[track_caller]
    fn check(split: &WordSplit, text: &str, want: &[&str]) {
        assert_eq!(collected(|visit| split.try_each_word(text, visit)), want);
    }

    #[test]
    fn the_last_space_goes_with_the_word_behind_it() {
        let pattern = Pattern::new(concat!(r" ?\p{L}+|\s*\n+", r"|\s+(?!\S)|\s+"));
        let split = WordSplit::Pattern(pattern.expect("a plain pattern"));
        check(&split, "a   b", &["a", "  ", " b"]);
        check(&split, "a b  ", &["a", " b", "  "]);
        check(&split, "a\u{3000}\u{3000}b", &["a", "\u{3000}", "\u{3000}", "b"]);
        check(&split, " \n  \n  12", &[" \n  \n", " ", " ", "12"]);
    }

    #[test]
    fn digits_stand_alone_or_together() {
        check(&WordSplit::EachDigit, "a12b", &["a", "1", "2", "b"]);
        check(&WordSplit::Digits, "a1²b3", &["a", "1²", "b", "3"]);
        check(&WordSplit::Digits, "", &[]);
    }

    #[test]
    fn patterns_that_look_around_are_not_supported() {
        for expression in [r"\ba", "^a", r"(?<=b)a", r"a(?!b)|b", "a*", r"(a)\1", "("] {
            assert!(Pattern::new(expression).is_none(), "{expression}");
        }
        assert!(Pattern::new(r"\s+$").is_some(), "looking ahead to the end is no harm");
    }
}
