//! A choice's message, put together from its pieces.

use terrace_engine::text::TokenInfo;

use crate::chat::chat_piece::{ChatFinish, ChatPiece};
use crate::chat::output_reader::OutputPart;

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
    pub fn add(&mut self, piece: ChatPiece) {
        for part in piece.parts {
            match part {
                OutputPart::Reasoning(text) => {
                    self.reasoning.get_or_insert_default().push_str(&text);
                }
                OutputPart::Text(text) => self.text.get_or_insert_default().push_str(&text),
                OutputPart::Call { name } => {
                    self.calls.push(WholeCall { name, arguments: String::new() });
                }
                OutputPart::Arguments(text) => {
                    let call = self.calls.last_mut().expect("a call comes before its arguments");
                    call.arguments.push_str(&text);
                }
            }
        }
        self.tokens.extend(piece.tokens);
        if piece.finish.is_some() {
            self.finish = piece.finish;
        }
    }
}
