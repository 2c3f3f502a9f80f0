//! The reasoning of a thinking model, split from its output: `<think>` … `</think>`.
//!
//! The segments are the same however the text is cut into deltas, up to where they are cut.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Whether a chat template is that of a thinking model.
pub fn is_thinking_template(template: &str) -> bool {
    template.contains(CLOSE) || template.contains(OPEN)
}

/// The prompt with the reasoning ended that it may end with: what follows is the output.
pub fn without_reasoning(prompt: String) -> String {
    match prompt.trim_end().ends_with(OPEN) {
        true => format!("{}\n\n{CLOSE}\n\n", prompt.trim_end()),
        false => prompt,
    }
}

pub struct ReasoningReader {
    state: State,
    /// Text that is not decided yet.
    held: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing but blanks has come.
    Start,
    /// After the tag that opens the reasoning: blanks are left out.
    Opened,
    Reasoning,
    /// After the reasoning: blanks before the output are left out.
    Gap,
    Output,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReasoningSegment {
    Reasoning(String),
    Output(String),
}

impl ReasoningReader {
    /// `prompt` may end with the tag that opens the reasoning, so that the output begins inside.
    pub fn after(prompt: &str) -> Self {
        let is_open = prompt.trim_end().ends_with(OPEN);
        let state = if is_open { State::Opened } else { State::Start };
        Self { state, held: String::new() }
    }

    pub fn push(&mut self, text: &str) -> Vec<ReasoningSegment> {
        self.held.push_str(text);
        let mut segments = Vec::new();
        while self.advance(&mut segments) {}
        segments
    }

    /// What is left when the output has ended.
    pub fn finish(&mut self) -> Vec<ReasoningSegment> {
        let held = std::mem::take(&mut self.held);
        let segment = match self.state {
            State::Reasoning => ReasoningSegment::Reasoning(held),
            State::Opened | State::Gap => return Vec::new(),
            State::Start | State::Output => ReasoningSegment::Output(held),
        };
        if segment.is_empty() { Vec::new() } else { vec![segment] }
    }

    /// Decides some of the held text; false when more must come first.
    fn advance(&mut self, segments: &mut Vec<ReasoningSegment>) -> bool {
        match self.state {
            State::Start => {
                let rest = self.held.trim_start();
                if let Some(inside) = rest.strip_prefix(OPEN) {
                    self.held = inside.to_owned();
                    self.state = State::Opened;
                } else if OPEN.starts_with(rest) {
                    return false;
                } else {
                    self.state = State::Output;
                }
                true
            }
            State::Reasoning => {
                if let Some(end) = self.held.find(CLOSE) {
                    let text = self.held[..end].trim_end().to_owned();
                    self.held.drain(..end + CLOSE.len());
                    give(ReasoningSegment::Reasoning(text), segments);
                    self.state = State::Gap;
                    return true;
                }
                // The tag may have begun, and the blanks before it belong to nobody.
                let begun = (0..CLOSE.len()).rev().find(|&n| self.held.ends_with(&CLOSE[..n]));
                let shown = self.held[..self.held.len() - begun.unwrap_or(0)].trim_end().len();
                give(ReasoningSegment::Reasoning(self.held.drain(..shown).collect()), segments);
                false
            }
            State::Opened => self.skip_blanks(State::Reasoning),
            State::Gap => self.skip_blanks(State::Output),
            State::Output => {
                give(ReasoningSegment::Output(std::mem::take(&mut self.held)), segments);
                false
            }
        }
    }

    /// Goes on to `next` at the first character that is no blank.
    fn skip_blanks(&mut self, next: State) -> bool {
        self.held = self.held.trim_start().to_owned();
        if self.held.is_empty() {
            return false;
        }
        self.state = next;
        true
    }
}

impl ReasoningSegment {
    fn is_empty(&self) -> bool {
        let (Self::Reasoning(text) | Self::Output(text)) = self;
        text.is_empty()
    }
}

fn give(segment: ReasoningSegment, segments: &mut Vec<ReasoningSegment>) {
    if !segment.is_empty() {
        segments.push(segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(prompt: &str, deltas: &[&str]) -> (String, String) {
        let mut reader = ReasoningReader::after(prompt);
        let mut segments: Vec<_> = deltas.iter().flat_map(|delta| reader.push(delta)).collect();
        segments.extend(reader.finish());
        let (mut reasoning, mut output) = (String::new(), String::new());
        for segment in segments {
            match segment {
                ReasoningSegment::Reasoning(text) => reasoning += &text,
                ReasoningSegment::Output(text) => output += &text,
            }
        }
        (reasoning, output)
    }

    /// Checks the text whole, and cut in two at every position.
    #[track_caller]
    fn check(prompt: &str, text: &str, reasoning: &str, output: &str) {
        let want = (reasoning.to_owned(), output.to_owned());
        for (at, _) in text.char_indices() {
            let (first, second) = text.split_at(at);
            assert_eq!(read(prompt, &[first, second]), want, "{first:?} {second:?}");
        }
        assert_eq!(read(prompt, &[text]), want);
    }

    #[test]
    fn reasoning_is_split_from_the_output() {
        check("", "<think>\nHm, é.\n</think>\n\nFour.", "Hm, é.", "Four.");
        check("", "Four. <think> is a tag", "", "Four. <think> is a tag");
        check("", "  no <", "", "  no <");
        check("", "<think>cut", "cut", "");
    }

    #[test]
    fn a_prompt_may_open_the_reasoning() {
        let prompt = "<|assistant|><think>\n";
        check(prompt, "Hm < 3.</think>Four.", "Hm < 3.", "Four.");
        check("<think>\n\n</think>\n\n", "Four.", "", "Four.");
        check(&without_reasoning(prompt.to_owned()), "Four.", "", "Four.");
        assert_eq!(without_reasoning("<think>a".to_owned()), "<think>a");
    }
}
