//! A choice's message, put together from its deltas.

use terrace_engine::text::TokenInfo;

use crate::chat::chat_delta::{ChatDelta, ChatFinish};
use crate::chat::output_reader::OutputSegment;

#[derive(Debug, Default, PartialEq)]
pub struct WholeMessage {
    pub reasoning: Option<String>,
    pub text: Option<String>,
    pub calls: Vec<WholeCall>,
    pub tokens: Vec<TokenInfo>,
    pub finish: Option<ChatFinish>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct WholeCall {
    pub name: String,
    /// The text of a JSON object, as the model wrote it.
    pub arguments: String,
}

impl WholeMessage {
    pub fn add(&mut self, delta: ChatDelta) {
        for segment in delta.segments {
            match segment {
                OutputSegment::Reasoning(text) => {
                    self.reasoning.get_or_insert_default().push_str(&text);
                }
                OutputSegment::Text(text) => self.text.get_or_insert_default().push_str(&text),
                OutputSegment::Call { name } => {
                    self.calls.push(WholeCall { name, arguments: String::new() });
                }
                OutputSegment::Arguments(text) => {
                    let call = self.calls.last_mut().expect("a call comes before its arguments");
                    call.arguments.push_str(&text);
                }
            }
        }
        self.tokens.extend(delta.tokens);
        if delta.finish.is_some() {
            self.finish = delta.finish;
        }
    }
}
