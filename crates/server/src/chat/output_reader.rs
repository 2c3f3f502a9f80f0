//! What one choice's text is made of: reasoning, text and calls, while it is decoded.

use crate::chat::reasoning_reader::{ReasoningReader, ReasoningSegment};
use crate::tools::{CallParser, CallSegment, RepeatedCalls};

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
pub enum OutputSegment {
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

    pub fn push(&mut self, text: String) -> Vec<OutputSegment> {
        let apart = match &mut self.reasoning {
            Some(reader) => reader.push(&text),
            None if text.is_empty() => Vec::new(),
            None => vec![ReasoningSegment::Output(text)],
        };
        self.read(apart)
    }

    /// What is left when the output has ended by itself.
    pub fn finish(&mut self) -> Vec<OutputSegment> {
        let left = self.reasoning.as_mut().map(ReasoningReader::finish).unwrap_or_default();
        let mut segments = self.read(left);
        let called = self.calls.as_mut().map(CallParser::finish).unwrap_or_default();
        let called = self.repeated.filter(called);
        segments.extend(self.counted(called));
        let held = self.repeated.finish();
        segments.extend(self.counted(held));
        segments
    }

    /// What is left when the output was cut by its longest length.
    pub fn cut(&mut self) -> Vec<OutputSegment> {
        let left = self.reasoning.as_mut().map(ReasoningReader::finish).unwrap_or_default();
        let mut segments = self.read(left);
        if let Some(parser) = &mut self.calls {
            parser.cut();
        }
        let held = self.repeated.finish();
        segments.extend(self.counted(held));
        segments
    }

    pub fn has_calls(&self) -> bool {
        0 < self.count
    }

    /// Whether all that was requested has come, or nothing new will.
    pub fn is_over(&self) -> bool {
        self.repeated.is_loop() || self.calls.as_ref().is_some_and(CallParser::is_over)
    }

    fn read(&mut self, apart: Vec<ReasoningSegment>) -> Vec<OutputSegment> {
        let mut segments = Vec::new();
        for segment in apart {
            match (segment, &mut self.calls) {
                (ReasoningSegment::Reasoning(text), _) => {
                    segments.push(OutputSegment::Reasoning(text));
                }
                (ReasoningSegment::Output(text), None) => segments.push(OutputSegment::Text(text)),
                (ReasoningSegment::Output(text), Some(parser)) => {
                    let read = parser.push(&text);
                    let read = self.repeated.filter(read);
                    segments.extend(self.counted(read));
                }
            }
        }
        segments
    }

    fn counted(&mut self, segments: Vec<CallSegment>) -> Vec<OutputSegment> {
        let calls =
            segments.iter().filter(|segment| matches!(segment, CallSegment::Call { .. })).count();
        self.count += calls;
        segments.into_iter().map(OutputSegment::from).collect()
    }
}

impl From<CallSegment> for OutputSegment {
    fn from(segment: CallSegment) -> Self {
        match segment {
            CallSegment::Text(text) => Self::Text(text),
            CallSegment::Call { name } => Self::Call { name },
            CallSegment::Arguments(text) => Self::Arguments(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ToolFormat;

    fn reader() -> OutputReader {
        let calls = CallParser::new(ToolFormat::Hermes.markup(), true);
        OutputReader::new(Some(ReasoningReader::after("")), Some(calls))
    }

    const CALL: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";

    #[test]
    fn reasoning_and_calls_come_apart() {
        let mut reader = reader();
        let mut segments = reader.push(format!("<think>Call f.</think>\nLook:\n{CALL}"));
        segments.extend(reader.finish());
        let want = [
            OutputSegment::Reasoning("Call f.".to_owned()),
            OutputSegment::Text("Look:".to_owned()),
            OutputSegment::Call { name: "f".to_owned() },
            OutputSegment::Arguments("{}".to_owned()),
        ];
        assert_eq!(segments, want);
        assert!(reader.has_calls());
    }

    #[test]
    fn a_cut_call_leaves_no_markup() {
        for cut in ["<tool_c", "<tool_call>", "<tool_call>\n{\"name\": \"f\", \"arg"] {
            let mut reader = reader();
            let mut segments = reader.push(format!("Well. {cut}"));
            segments.extend(reader.cut());
            assert_eq!(segments, [OutputSegment::Text("Well.".to_owned())], "{cut}");
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
