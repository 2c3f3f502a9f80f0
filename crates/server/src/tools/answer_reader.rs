//! What an answer's text is made of, for answers with and without tools.

use super::call_parser::{CallParser, Part};
use super::{ToolOffer, ToolStyle};

pub struct AnswerReader {
    /// `None` where no tools are offered: then all is text.
    parser: Option<CallParser>,
}

impl AnswerReader {
    pub fn new(style: ToolStyle, offer: Option<&ToolOffer>) -> Self {
        let parser = offer.map(|offer| CallParser::new(style.format.frame(), offer.is_parallel()));
        AnswerReader { parser }
    }

    pub fn push(&mut self, text: String) -> Vec<Part> {
        match &mut self.parser {
            Some(parser) => parser.push(&text),
            None if text.is_empty() => Vec::new(),
            None => vec![Part::Text(text)],
        }
    }

    /// What is left when the answer has ended.
    pub fn finish(&mut self) -> Vec<Part> {
        self.parser.as_mut().map(CallParser::finish).unwrap_or_default()
    }

    pub fn has_calls(&self) -> bool {
        self.parser.as_ref().is_some_and(|parser| 0 < parser.calls())
    }
}
