//! The outputs of a chat as they are decoded, taken apart into reasoning, text and calls.

use std::sync::Arc;

use terrace_engine::text::TextFinish;
use terrace_engine::{TokenId, TokenLogprobs};

use crate::api_error::ApiError;
use crate::chat::chat_piece::{ChatFinish, ChatPiece};
use crate::chat::output_reader::{OutputPart, OutputReader};
use crate::chat::whole_message::WholeMessage;
use crate::language::sse::Source;
use crate::language::{Answers, ServedModel, Usage};

pub struct ChatOutputs {
    answers: Answers,
    /// One for each choice.
    readers: Vec<OutputReader>,
    model: Arc<ServedModel>,
    /// Of the prompt's tokens, once the first piece has come, if asked.
    prompt_logprobs: Option<Vec<Option<TokenLogprobs>>>,
}

impl ChatOutputs {
    pub fn new(answers: Answers, readers: Vec<OutputReader>, model: Arc<ServedModel>) -> Self {
        Self { answers, readers, model, prompt_logprobs: None }
    }

    /// The output of a prompt that is no chat: all of it is text.
    pub fn plain(answers: Answers, model: Arc<ServedModel>) -> Self {
        Self::new(answers, vec![OutputReader::new(None, None)], model)
    }

    pub fn model(&self) -> &Arc<ServedModel> {
        &self.model
    }

    pub fn choices(&self) -> usize {
        self.readers.len()
    }

    /// What the request asked for and got in another way.
    pub fn warnings(&self) -> &[String] {
        self.answers.warnings()
    }

    /// The prompt's tokens.
    pub fn prompt_tokens(&self) -> &[TokenId] {
        self.answers.prompts().first().map_or(&[], AsRef::as_ref)
    }

    /// Log-probabilities of the prompt's tokens, once the first piece has come, if asked.
    pub fn prompt_logprobs(&self) -> Option<&[Option<TokenLogprobs>]> {
        self.prompt_logprobs.as_deref()
    }

    /// The whole message of every choice.
    pub async fn collect(&mut self) -> Result<Vec<WholeMessage>, ApiError> {
        let mut messages: Vec<WholeMessage> = Vec::new();
        messages.resize_with(self.choices(), WholeMessage::default);
        while let Some(piece) = self.next().await {
            let piece = piece?;
            messages[piece.choice].add(piece);
        }
        Ok(messages)
    }

    fn read(
        &mut self,
        choice: usize,
        text: String,
        finish: Option<TextFinish>,
    ) -> (Vec<OutputPart>, Option<ChatFinish>) {
        let reader = &mut self.readers[choice];
        let mut parts = reader.push(text);
        let Some(finish) = finish else {
            let is_over = reader.is_over();
            if is_over {
                parts.extend(reader.finish());
                self.answers.end(choice);
            }
            return (parts, is_over.then_some(ChatFinish::ToolCalls));
        };
        let is_cut = finish == TextFinish::Length;
        parts.extend(if is_cut { reader.cut() } else { reader.finish() });
        let finish = match finish {
            _ if is_cut => ChatFinish::Length,
            _ if reader.has_calls() => ChatFinish::ToolCalls,
            TextFinish::StopText(text) => ChatFinish::StopText(text),
            _ => ChatFinish::Stop,
        };
        (parts, Some(finish))
    }
}

impl Source for ChatOutputs {
    type Piece = ChatPiece;

    async fn next(&mut self) -> Option<Result<ChatPiece, ApiError>> {
        let piece = match self.answers.next().await? {
            Ok(piece) => piece,
            Err(error) => return Some(Err(error)),
        };
        if piece.prompt_logprobs.is_some() {
            self.prompt_logprobs = piece.prompt_logprobs;
        }
        let choice = piece.answer;
        let (parts, finish) = self.read(choice, piece.text, piece.finish);
        Some(Ok(ChatPiece { choice, parts, tokens: piece.tokens, finish }))
    }

    fn usage(&self) -> Usage {
        self.answers.usage()
    }
}
