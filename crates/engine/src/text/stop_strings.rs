//! Stop strings: text is shown once it cannot be one any more.
//!
//! The stop string that begins first in the text wins, and the text ends before it, or with it if
//! stop strings are to be shown. Of several that begin at the same byte the shortest is named: it
//! is complete first. So the result is a function of the whole text, however it is cut.
//!
//! Invariant: what is held is empty or the beginning of a stop string.

use std::sync::Arc;

use crate::error::Error;
use crate::text::TokenInfo;

/// Most stop strings of a request: each is looked for in every piece of text.
pub const MAX_STOPS: usize = 16;

pub struct StopStrings {
    stops: Arc<[String]>,
    shows_stop: bool,
    text: String,
    /// Where `text` begins in the whole output, in bytes.
    text_start: usize,
    /// Tokens not shown yet, and where in the whole output their text begins.
    tokens: Vec<(usize, TokenInfo)>,
}

/// What can be shown now.
#[derive(Debug, Default, PartialEq)]
pub struct Shown {
    pub text: String,
    /// A token is shown with the first of its text. One without text of its own, such as a part
    /// of a character, goes with the text after it.
    pub tokens: Vec<TokenInfo>,
    /// The stop string that ended the text; nothing may be pushed after it.
    pub stop: Option<String>,
}

impl StopStrings {
    /// None of `stops` may be empty. `shows_stop`: the one that ends the text is part of it.
    pub fn new(stops: Arc<[String]>, shows_stop: bool) -> Self {
        assert!(stops.iter().all(|stop| !stop.is_empty()), "an empty stop string ends every text");
        Self { stops, shows_stop, text: String::new(), text_start: 0, tokens: Vec::new() }
    }

    /// Adds a token and the text it completes.
    pub fn push(&mut self, token: TokenInfo, piece: &str) -> Shown {
        self.tokens.push((self.text_start + self.text.len(), token));
        self.text.push_str(piece);
        let undecided = self.first_possible_stop();
        match self.first_stop() {
            Some((start, stop)) if start <= undecided => self.end_at(start, stop),
            _ => self.show(undecided),
        }
    }

    /// Ends the text with what the detokeniser still had.
    pub fn finish(&mut self, rest: &str) -> Shown {
        self.text.push_str(rest);
        if let Some((start, stop)) = self.first_stop() {
            return self.end_at(start, stop);
        }
        let mut shown = self.show(self.text.len());
        shown.tokens.extend(self.tokens.drain(..).map(|(_, token)| token));
        shown
    }

    /// Ends the text with `stop`, which begins at `start`.
    fn end_at(&mut self, start: usize, stop: String) -> Shown {
        let shown = self.show(if self.shows_stop { start + stop.len() } else { start });
        self.text.clear();
        self.tokens.clear();
        Shown { stop: Some(stop), ..shown }
    }

    fn show(&mut self, bytes: usize) -> Shown {
        let text: String = self.text.drain(..bytes).collect();
        self.text_start += bytes;
        let begun = self.tokens.partition_point(|(start, _)| *start < self.text_start);
        let tokens = self.tokens.drain(..begun).map(|(_, token)| token).collect();
        Shown { text, tokens, stop: None }
    }

    /// The first stop string in the held text, and where it begins.
    fn first_stop(&self) -> Option<(usize, String)> {
        let found = self.stops.iter().filter_map(|stop| Some((self.text.find(stop)?, stop)));
        let (start, stop) = found.min_by_key(|(start, stop)| (*start, stop.len()))?;
        Some((start, stop.clone()))
    }

    /// Where the held text may go on to become a stop string; its end if nowhere.
    fn first_possible_stop(&self) -> usize {
        let may_become_stop = |start: &usize| {
            let begun = &self.text[*start..];
            self.stops.iter().any(|stop| stop.len() > begun.len() && stop.starts_with(begun))
        };
        let mut starts = self.text.char_indices().map(|(start, _)| start);
        starts.find(may_become_stop).unwrap_or(self.text.len())
    }
}

/// Refuses stop strings that are too many or empty.
pub(crate) fn check_stops(stops: &[String]) -> Result<(), Error> {
    let refused = |value: String, rule: &str| {
        Err(Error::BadOption { option: "stop", value, rule: rule.into() })
    };
    if MAX_STOPS < stops.len() {
        let rule = format!("it must be at most {MAX_STOPS} texts");
        return refused(format!("{} texts", stops.len()), &rule);
    }
    if stops.iter().any(String::is_empty) {
        let rule = "it would end every output before its first token";
        return refused("an empty text".into(), rule);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
