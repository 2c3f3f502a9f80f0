//! An output's text as text and calls, while it is written.
//!
//! The segments are the same however the text is cut into deltas, up to where texts and arguments
//! are cut. What looks like a call and is none stays text.

use super::call_markup::CallMarkup;
use super::call_reader::{CallReader, CallStatus};
use super::call_segment::CallSegment;

pub struct CallParser {
    markup: &'static CallMarkup,
    /// Whether more than the first call is wanted.
    is_parallel: bool,
    state: State,
    /// Text that is not decided yet.
    held: String,
    calls: usize,
}

enum State {
    /// Before the next call, if there is one.
    Text,
    /// Among calls, before or after one of them.
    Between,
    Call(Box<CallReader>),
    /// No call can come any more.
    Plain,
    /// Nothing that comes is wanted.
    Over,
}

impl CallParser {
    pub fn new(markup: &'static CallMarkup, is_parallel: bool) -> Self {
        let (held, state) = (String::new(), State::Text);
        CallParser { markup, is_parallel, state, held, calls: 0 }
    }

    pub fn push(&mut self, text: &str) -> Vec<CallSegment> {
        self.held.push_str(text);
        let mut segments = Vec::new();
        while !self.held.is_empty() && self.advance(&mut segments) {}
        segments
    }

    /// What is left when the output has ended by itself.
    pub fn finish(&mut self) -> Vec<CallSegment> {
        let mut segments = Vec::new();
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.state, State::Over) {
            State::Text if self.calls == 0 => give_text(held, &mut segments),
            // Blanks after the last call are nobody's text.
            State::Text if !held.trim().is_empty() => give_text(held, &mut segments),
            State::Call(reader) if !reader.has_begun() => {
                give_text([self.markup.open, &reader.into_text()].concat(), &mut segments);
            }
            _ => {}
        }
        segments
    }

    /// What is left when the output was cut. What is held may be the beginning of a call, and a
    /// call that has not come to its arguments is nobody's text: neither is shown.
    pub fn cut(&mut self) {
        self.held.clear();
        self.state = State::Over;
    }

    /// Whether nothing that comes is wanted any more.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// How many calls there were.
    #[cfg(test)]
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Decides some of the held text; false when more must come first.
    fn advance(&mut self, segments: &mut Vec<CallSegment>) -> bool {
        match &mut self.state {
            State::Text if self.markup.open.is_empty() => self.look_for_object(),
            State::Text => self.look_for_open(segments),
            State::Between => self.look_for_call(),
            State::Call(reader) => {
                let (used, status) = reader.read(&self.held, segments);
                self.held.drain(..used);
                self.follow(status, segments);
                true
            }
            State::Plain => {
                let text = std::mem::take(&mut self.held);
                give_text(text, segments);
                false
            }
            State::Over => {
                self.held.clear();
                false
            }
        }
    }

    /// Where an output that begins with `{` is a call.
    fn look_for_object(&mut self) -> bool {
        let Some(first) = self.held.trim_start().chars().next() else { return false };
        self.state = if first == '{' { State::Between } else { State::Plain };
        true
    }

    fn look_for_open(&mut self, segments: &mut Vec<CallSegment>) -> bool {
        let open = self.markup.open;
        if let Some(start) = self.held.find(open) {
            let text: String = self.held.drain(..start + open.len()).collect();
            give_text(text[..start].trim_end().to_owned(), segments);
            self.state = State::Between;
            return true;
        }
        // The blanks before a call are not text either.
        let begun = (0..open.len()).rev().find(|&bytes| self.held.ends_with(&open[..bytes]));
        let shown = self.held.len() - begun.unwrap_or(0);
        let shown = self.held[..shown].trim_end().len();
        let text = self.held.drain(..shown).collect();
        give_text(text, segments);
        false
    }

    fn look_for_call(&mut self) -> bool {
        let CallMarkup { skipped, close, open, .. } = self.markup;
        let skips = |character: char| character.is_whitespace() || skipped.contains(&character);
        let rest = self.held.trim_start_matches(skips);
        self.held = rest.to_owned();
        if self.held.is_empty() {
            return false;
        }
        if self.held.starts_with('{') {
            self.state = State::Call(Box::default());
        } else if !close.is_empty() && self.held.starts_with(close) {
            self.held.drain(..close.len());
            self.state = State::Text;
        } else if close.starts_with(self.held.as_str()) {
            return false;
        } else {
            self.state = if open.is_empty() { State::Plain } else { State::Text };
        }
        true
    }

    fn follow(&mut self, status: CallStatus, segments: &mut Vec<CallSegment>) {
        match status {
            CallStatus::Unfinished => {}
            CallStatus::Finished => {
                self.calls += 1;
                self.state = if self.is_parallel { State::Between } else { State::Over };
            }
            CallStatus::NoCall => {
                let State::Call(reader) = std::mem::replace(&mut self.state, State::Plain) else {
                    return;
                };
                give_text([self.markup.open, &reader.into_text()].concat(), segments);
            }
        }
    }
}

fn give_text(text: String, segments: &mut Vec<CallSegment>) {
    if !text.is_empty() {
        segments.push(CallSegment::Text(text));
    }
}

#[cfg(test)]
mod tests;
