//! A look at text in protobuf's format before it is parsed.
//!
//! It bounds how deep messages stand in each other, since a parser calls itself for each. And it
//! puts marks where people leave them out, as other parsers let them: a colon before a list of
//! messages, and commas between messages of a list.

use std::borrow::Cow;

/// Messages and lists in each other; a model's configuration has ten.
const DEPTH_MOST: usize = 32;

pub struct ScannedText<'a> {
    text: Cow<'a, str>,
    /// Where marks stand that the original has not, in ascending order.
    marks: Vec<usize>,
}

pub struct ScanError {
    /// A byte of the text.
    pub offset: usize,
    pub why: String,
}

impl ScannedText<'_> {
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where a byte of the text stands in the original.
    pub fn original_offset(&self, offset: usize) -> usize {
        offset - self.marks.partition_point(|mark| *mark < offset)
    }
}

pub fn scan(text: &str) -> Result<ScannedText<'_>, ScanError> {
    let mut scan = Scan::default();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let offset = text.len() - rest.len();
        let length = match first {
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '"' | '\'' => {
                scan.last = Last::Other;
                quoted_length(rest, first)
            }
            '{' | '<' | '[' => {
                scan.open(offset, first)?;
                1
            }
            '}' | '>' | ']' => {
                scan.close(first);
                1
            }
            first if is_of_word(first) => {
                scan.word();
                rest.find(|it: char| !is_of_word(it)).unwrap_or(rest.len())
            }
            first => {
                if !first.is_ascii_whitespace() {
                    scan.last = if first == ':' { Last::Colon } else { Last::Other };
                }
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    Ok(with_marks(text, &scan.missing))
}

/// Of a name or a number.
fn is_of_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// What stands before, as far as it matters to what may follow.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Other,
    Colon,
    FieldName,
    /// One of a list.
    Message,
}

#[derive(Default)]
struct Scan {
    open: Vec<char>,
    last: Last,
    /// Marks that are left out, and where they belong.
    missing: Vec<(usize, char)>,
}

impl Scan {
    fn open(&mut self, offset: usize, bracket: char) -> Result<(), ScanError> {
        if self.open.len() == DEPTH_MOST {
            let why = format!("messages stand more than {DEPTH_MOST} deep in each other");
            return Err(ScanError { offset, why });
        }
        match (self.last, bracket) {
            (Last::FieldName, '[') => self.missing.push((offset, ':')),
            (Last::Message, '{' | '<') => self.missing.push((offset, ',')),
            _ => {}
        }
        self.open.push(bracket);
        self.last = Last::Other;
        Ok(())
    }

    /// What was not opened is for the parser to find.
    fn close(&mut self, bracket: char) {
        self.open.pop();
        let is_of_list = bracket != ']' && self.open.last() == Some(&'[');
        self.last = if is_of_list { Last::Message } else { Last::Other };
    }

    fn word(&mut self) {
        let is_value = self.last == Last::Colon || self.open.last() == Some(&'[');
        self.last = if is_value { Last::Other } else { Last::FieldName };
    }
}

/// Of a text that begins with `quote`, with its quotes.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (offset, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            character if character == quote => return offset + 1,
            _ => {}
        }
    }
    text.len()
}

fn with_marks<'a>(text: &'a str, missing: &[(usize, char)]) -> ScannedText<'a> {
    if missing.is_empty() {
        return ScannedText { text: Cow::Borrowed(text), marks: Vec::new() };
    }
    let mut whole = String::with_capacity(text.len() + missing.len());
    let mut marks = Vec::with_capacity(missing.len());
    let mut copied = 0;
    for &(offset, mark) in missing {
        whole.push_str(&text[copied..offset]);
        marks.push(whole.len());
        whole.push(mark);
        copied = offset;
    }
    whole.push_str(&text[copied..]);
    ScannedText { text: Cow::Owned(whole), marks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_put_where_they_are_left_out() {
        for (text, want) in [
            ("a [ {b: 1} {b: 2} ]", "a :[ {b: 1} ,{b: 2} ]"),
            ("a: [ <b: 1>\n # {\n <b: 2>, {} ]", "a: [ <b: 1>\n # {\n ,<b: 2>, {} ]"),
            ("a {b: 1} a {b: 2}", "a {b: 1} a {b: 2}"),
            ("a[{b: '} {é'}{}]", "a:[{b: '} {é'},{}]"),
            (r#"a: "\" b [ {} {} ]""#, r#"a: "\" b [ {} {} ]""#),
            ("a [ {} ] b {} c: D [e.f]: 1", "a :[ {} ] b {} c: D [e.f]: 1"),
            ("a: 1 b [ 2 ] c: [ D, E ]", "a: 1 b :[ 2 ] c: [ D, E ]"),
        ] {
            let scanned = scan(text).map_err(|error| error.why).expect("nothing is wrong");
            assert_eq!(scanned.text(), want);
            for (offset, byte) in text.bytes().enumerate() {
                let found = (0..want.len()).find(|at| {
                    scanned.original_offset(*at) == offset && !scanned.marks.contains(at)
                });
                assert_eq!(want.as_bytes()[found.expect("nothing is lost")], byte);
            }
        }
    }

    #[test]
    fn what_is_not_closed_is_left_to_the_parser() {
        for text in ["'", "\"\\", "# a", "}", "]]]", "{", "a [ {} {", "é { ü"] {
            assert!(scan(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        assert!(scan(&"{".repeat(32)).is_ok());
        assert!(scan(&"{}".repeat(1000)).is_ok());
        let error = scan(&"[<".repeat(20)).err().expect("that is too deep");
        assert_eq!((error.offset, error.why.contains("more than 32 deep")), (32, true));
    }
}
