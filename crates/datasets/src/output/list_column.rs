//! One number of each event, as a list in a cell.

use crate::event::Event;
use crate::text::push_number;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListColumn {
    pub name: &'static str,
    pub of: ListOf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOf {
    Item,
    Time,
    Action,
    PlayMs,
    DurationMs,
}

impl ListOf {
    /// Appends the cell.
    pub fn push(self, out: &mut Vec<u8>, events: &[Event]) {
        let events = events.iter();
        match self {
            ListOf::Item => push_list(out, events.map(|event| event.item)),
            ListOf::Time => push_list(out, events.map(|event| event.time)),
            ListOf::Action => push_list(out, events.map(|event| i64::from(event.action))),
            ListOf::PlayMs => push_list(out, events.map(|event| event.play_ms)),
            ListOf::DurationMs => push_list(out, events.map(|event| event.duration_ms)),
        }
    }
}

/// As Python prints a list, in quotes where it has a comma: `"[1, 2]"`, `[1]`.
pub fn push_list(out: &mut Vec<u8>, numbers: impl ExactSizeIterator<Item = i64>) {
    let has_comma = 1 < numbers.len();
    if has_comma {
        out.push(b'"');
    }
    out.push(b'[');
    for (index, number) in numbers.enumerate() {
        if 0 < index {
            out.extend_from_slice(b", ");
        }
        push_number(out, number);
    }
    out.push(b']');
    if has_comma {
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let text = |numbers: &[i64]| {
            let mut out = Vec::new();
            push_list(&mut out, numbers.iter().copied());
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&[1, -2, 30]), "\"[1, -2, 30]\"");
        assert_eq!(text(&[7]), "[7]");
        assert_eq!(text(&[]), "[]");
    }
}
