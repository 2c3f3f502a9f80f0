//! The outputs of a chat as a message of content blocks, whole or streamed.
//!
//! A block is what the model wrote of one kind in a row; each call is a block of its own. The
//! blocks are the same whole and streamed, but for calls whose arguments are no JSON object: a
//! whole message leaves out one that `max_tokens` cut, which nobody shall run, and shows another,
//! which only a model that is free to write anything writes, as the text it is. A stream has sent
//! their beginning by then.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::Map;

use super::errors::ErrorShape;
use super::event_shape::{Delta, Event};
use super::message_shape::{ContentBlock, Message, Stop, StopReason};
use crate::api_error::{ApiError, ApiResult};
use crate::chat::{ChatDelta, ChatFinish, ChatOutputs, OutputSegment};
use crate::language::Usage;
use crate::language::sse::{Frame, Frames, Source};

pub struct MessageWriter {
    /// Whether thinking blocks have their text.
    pub shows_thinking: bool,
}

impl MessageWriter {
    pub async fn whole(self, mut outputs: ChatOutputs) -> ApiResult<Response> {
        let mut drafts = Drafts::default();
        let mut finish = None;
        while let Some(delta) = outputs.next().await {
            let delta = delta?;
            delta.segments.into_iter().for_each(|segment| drafts.add(self.shown(segment)));
            finish = delta.finish.or(finish);
        }
        let content = drafts.finish(finish == Some(ChatFinish::Length));
        let message = Message {
            stop: stop_of(finish, &content),
            content,
            usage: outputs.usage().into(),
            ..beginning(&outputs)
        };
        Ok(Json(message).into_response())
    }

    /// `request_id`: for an error that ends the stream.
    pub fn streamed(self, outputs: &ChatOutputs, request_id: String) -> MessageFrames {
        let message = Some(beginning(outputs));
        MessageFrames { writer: self, message, open: None, blocks: 0, finish: None, request_id }
    }

    fn shown(&self, segment: OutputSegment) -> OutputSegment {
        match segment {
            OutputSegment::Reasoning(_) if !self.shows_thinking => {
                OutputSegment::Reasoning(String::new())
            }
            segment => segment,
        }
    }
}

fn beginning(outputs: &ChatOutputs) -> Message {
    let prompt_tokens = outputs.prompt_tokens().len();
    Message::begin(outputs.model().name(), prompt_tokens, outputs.warnings())
}

/// Calls that were no calls in the end are not what the message ended for.
fn stop_of(finish: Option<ChatFinish>, content: &[ContentBlock]) -> Stop {
    let stop = finish.map(Stop::from).unwrap_or_default();
    let has_calls = content.iter().any(|block| matches!(block, ContentBlock::ToolUse { .. }));
    match stop.stop_reason {
        Some(StopReason::ToolUse) if !has_calls => Stop::from(ChatFinish::Stop),
        _ => stop,
    }
}

/// The blocks of a whole message while they grow.
#[derive(Default)]
struct Drafts(Vec<Draft>);

enum Draft {
    Thinking(String),
    Text(String),
    Call { name: String, arguments: String },
}

impl Drafts {
    fn add(&mut self, segment: OutputSegment) {
        match (self.0.last_mut(), segment) {
            (Some(Draft::Thinking(text)), OutputSegment::Reasoning(more))
            | (Some(Draft::Text(text)), OutputSegment::Text(more))
            | (Some(Draft::Call { arguments: text, .. }), OutputSegment::Arguments(more)) => {
                text.push_str(&more);
            }
            (_, OutputSegment::Reasoning(text)) => self.0.push(Draft::Thinking(text)),
            (_, OutputSegment::Text(text)) => self.0.push(Draft::Text(text)),
            (_, OutputSegment::Call { name }) => {
                self.0.push(Draft::Call { name, arguments: String::new() });
            }
            (_, OutputSegment::Arguments(_)) => unreachable!("a call comes before its arguments"),
        }
    }

    fn finish(self, is_cut: bool) -> Vec<ContentBlock> {
        let last = self.0.len().saturating_sub(1);
        let drafts = self.0.into_iter().enumerate();
        let blocks = drafts.filter_map(|(index, draft)| match draft {
            Draft::Thinking(text) => Some(ContentBlock::thinking(text)),
            Draft::Text(text) => Some(ContentBlock::Text { text }),
            Draft::Call { name, arguments } => match serde_json::from_str(&arguments) {
                Ok(input) => Some(ContentBlock::tool_use(name, input)),
                Err(_) if is_cut && index == last => None,
                Err(_) => Some(ContentBlock::Text { text: format!("{name} {arguments}") }),
            },
        });
        blocks.collect()
    }
}

pub struct MessageFrames {
    writer: MessageWriter,
    /// Until it is sent.
    message: Option<Message>,
    open: Option<OpenBlock>,
    /// Blocks begun.
    blocks: usize,
    finish: Option<ChatFinish>,
    request_id: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenBlock {
    Thinking,
    Text,
    Call,
}

impl Frames<ChatDelta> for MessageFrames {
    fn open(&mut self) -> Vec<Frame> {
        let message = self.message.take();
        let start = message.map(|message| Event::MessageStart { message: Box::new(message) });
        start.into_iter().chain([Event::Ping]).map(|event| event.frame()).collect()
    }

    fn delta(&mut self, delta: ChatDelta, _usage: Usage) -> Vec<Frame> {
        let mut events = Vec::new();
        for segment in delta.segments {
            let segment = self.writer.shown(segment);
            self.add(segment, &mut events);
        }
        if delta.finish.is_some() {
            self.finish = delta.finish;
            self.close_block(&mut events);
        }
        events.iter().map(Event::frame).collect()
    }

    fn close(&mut self, usage: Usage) -> Vec<Frame> {
        let delta = self.finish.take().map(Stop::from).unwrap_or_default();
        let end = [Event::MessageDelta { delta, usage: usage.into() }, Event::MessageStop];
        end.iter().map(Event::frame).collect()
    }

    fn error(&mut self, error: &ApiError) -> Frame {
        Frame::named("error", &ErrorShape::new(error, &self.request_id))
    }
}

impl MessageFrames {
    fn add(&mut self, segment: OutputSegment, events: &mut Vec<Event>) {
        match segment {
            OutputSegment::Reasoning(thinking) => {
                self.enter(OpenBlock::Thinking, events, || ContentBlock::thinking(String::new()));
                self.grow(Delta::Thinking { thinking }, events);
            }
            OutputSegment::Text(text) => {
                let empty = || ContentBlock::Text { text: String::new() };
                self.enter(OpenBlock::Text, events, empty);
                self.grow(Delta::Text { text }, events);
            }
            OutputSegment::Call { name } => {
                self.close_block(events);
                self.enter(OpenBlock::Call, events, || ContentBlock::tool_use(name, Map::new()));
            }
            OutputSegment::Arguments(partial_json) => {
                self.grow(Delta::InputJson { partial_json }, events);
            }
        }
    }

    /// Begins a block unless one of this kind goes on.
    fn enter(
        &mut self,
        kind: OpenBlock,
        events: &mut Vec<Event>,
        empty: impl FnOnce() -> ContentBlock,
    ) {
        if self.open != Some(kind) {
            self.close_block(events);
            self.open = Some(kind);
            self.blocks += 1;
            let start = Event::ContentBlockStart { index: self.index(), content_block: empty() };
            events.push(start);
        }
    }

    fn grow(&self, delta: Delta, events: &mut Vec<Event>) {
        if !delta.is_empty() {
            events.push(Event::ContentBlockDelta { index: self.index(), delta });
        }
    }

    fn close_block(&mut self, events: &mut Vec<Event>) {
        let index = self.index();
        let Some(kind) = self.open.take() else { return };
        if kind == OpenBlock::Thinking {
            let delta = Delta::Signature { signature: "" };
            events.push(Event::ContentBlockDelta { index, delta });
        }
        events.push(Event::ContentBlockStop { index });
    }

    /// Of the block that was begun last.
    fn index(&self) -> usize {
        self.blocks.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests;
