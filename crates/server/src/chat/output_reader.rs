//! What one choice's text is made of: reasoning, text and calls, while it is decoded.

use crate::chat::reasoning_reader::{ReasoningReader, Segment};
use crate::tools::{CallParser, Part, RepeatedCalls};

pub struct OutputReader {
    /// `None` where the model does not think: then nothing is reasoning.
    reasoning: Option<ReasoningReader>,
    /// `None` where no tools are offered: then all is text.
    calls: Option<CallParser>,
    repeated: RepeatedCalls,
    /// Calls that were given.
    count: usize,
}

/// Some of a choice's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputPart {
    Reasoning(String),
    Text(String),
    /// A call begins; its arguments follow.
    Call {
        name: String,
    },
    /// More of the last call's arguments.
    Arguments(String),
}

impl OutputReader {
    pub fn new(reasoning: Option<ReasoningReader>, calls: Option<CallParser>) -> Self {
        Self { reasoning, calls, repeated: RepeatedCalls::default(), count: 0 }
    }

    pub fn push(&mut self, text: String) -> Vec<OutputPart> {
        let segments = match &mut self.reasoning {
            Some(reader) => reader.push(&text),
            None if text.is_empty() => Vec::new(),
            None => vec![Segment::Output(text)],
        };
        self.read(segments)
    }

    /// What is left when the output has ended by itself.
    pub fn finish(&mut self) -> Vec<OutputPart> {
        let left = self.reasoning.as_mut().map(ReasoningReader::finish).unwrap_or_default();
        let mut parts = self.read(left);
        let called = self.calls.as_mut().map(CallParser::finish).unwrap_or_default();
        let called = self.repeated.filter(called);
        parts.extend(self.counted(called));
        let held = self.repeated.finish();
        parts.extend(self.counted(held));
        parts
    }

    /// What is left when the output was cut by its longest length.
    pub fn cut(&mut self) -> Vec<OutputPart> {
        let left = self.reasoning.as_mut().map(ReasoningReader::finish).unwrap_or_default();
        let mut parts = self.read(left);
        if let Some(parser) = &mut self.calls {
            parser.cut();
        }
        let held = self.repeated.finish();
        parts.extend(self.counted(held));
        parts
    }

    pub fn has_calls(&self) -> bool {
        0 < self.count
    }

    /// Whether all that was asked for has come, or nothing new will.
    pub fn is_over(&self) -> bool {
        self.repeated.is_loop() || self.calls.as_ref().is_some_and(CallParser::is_over)
    }

    fn read(&mut self, segments: Vec<Segment>) -> Vec<OutputPart> {
        let mut parts = Vec::new();
        for segment in segments {
            match (segment, &mut self.calls) {
                (Segment::Reasoning(text), _) => parts.push(OutputPart::Reasoning(text)),
                (Segment::Output(text), None) => parts.push(OutputPart::Text(text)),
                (Segment::Output(text), Some(parser)) => {
                    let read = parser.push(&text);
                    let read = self.repeated.filter(read);
                    parts.extend(self.counted(read));
                }
            }
        }
        parts
    }

    fn counted(&mut self, parts: Vec<Part>) -> Vec<OutputPart> {
        let calls = parts.iter().filter(|part| matches!(part, Part::Call { .. })).count();
        self.count += calls;
        parts.into_iter().map(OutputPart::from).collect()
    }
}

impl From<Part> for OutputPart {
    fn from(part: Part) -> Self {
        match part {
            Part::Text(text) => Self::Text(text),
            Part::Call { name } => Self::Call { name },
            Part::Arguments(text) => Self::Arguments(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ToolFormat;

    fn reader() -> OutputReader {
        let calls = CallParser::new(ToolFormat::Hermes.frame(), true);
        OutputReader::new(Some(ReasoningReader::after("")), Some(calls))
    }

    const CALL: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";

    #[test]
    fn reasoning_and_calls_come_apart() {
        let mut reader = reader();
        let mut parts = reader.push(format!("<think>Call f.</think>\nLook:\n{CALL}"));
        parts.extend(reader.finish());
        let want = [
            OutputPart::Reasoning("Call f.".to_owned()),
            OutputPart::Text("Look:".to_owned()),
            OutputPart::Call { name: "f".to_owned() },
            OutputPart::Arguments("{}".to_owned()),
        ];
        assert_eq!(parts, want);
        assert!(reader.has_calls());
    }

    #[test]
    fn a_cut_call_leaves_no_markup() {
        for cut in ["<tool_c", "<tool_call>", "<tool_call>\n{\"name\": \"f\", \"arg"] {
            let mut reader = reader();
            let mut parts = reader.push(format!("Well. {cut}"));
            parts.extend(reader.cut());
            assert_eq!(parts, [OutputPart::Text("Well.".to_owned())], "{cut}");
        }
    }

    #[test]
    fn a_loop_of_calls_is_over() {
        let mut reader = reader();
        let mut calls = 0;
        while !reader.is_over() {
            calls += 1;
            assert!(calls < 10, "the loop is not seen");
            reader.push(format!("{CALL}\n"));
        }
        assert_eq!(reader.count, 1);
    }
}
