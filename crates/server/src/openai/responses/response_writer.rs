//! What a model decodes as a response: item by item, each step of it an event.
//!
//! A whole response is what the events of a streamed one add up to: both are written here.

use std::mem;

use crate::api_error::ApiError;
use crate::app_state::unix_seconds;
use crate::chat::{ChatDelta, ChatFinish, OutputSegment};
use crate::ids;
use crate::language::{TokenNames, Usage};
use crate::openai::logprobs::ChatLogprob;
use crate::openai::responses::item::{Item, ItemStatus};
use crate::openai::responses::open_item::{ItemKind, OpenItem};
use crate::openai::responses::response_shape::{
    IncompleteDetails, ResponseFailure, ResponseShape, ResponseStatus, ResponseUsage,
};
use crate::openai::responses::stream_event::{Event, EventBody};

pub struct ResponseWriter {
    /// In progress; has the items that are done.
    response: ResponseShape,
    open: Option<OpenItem>,
    /// Names the tokens where log-probabilities are requested.
    names: Option<TokenNames>,
    /// Of tokens whose text has not come yet.
    pending: Vec<ChatLogprob>,
    tokens: usize,
    /// How many of them had come with the last of the reasoning.
    reasoning_tokens: usize,
    finish: Option<ChatFinish>,
}

impl ResponseWriter {
    pub fn new(response: ResponseShape, names: Option<TokenNames>) -> Self {
        Self {
            response,
            open: None,
            names,
            pending: Vec::new(),
            tokens: 0,
            reasoning_tokens: 0,
            finish: None,
        }
    }

    pub fn begin(&self) -> Vec<Event> {
        let event = |name| response_event(name, self.response.clone());
        vec![event("response.created"), event("response.in_progress")]
    }

    pub fn delta(&mut self, delta: ChatDelta) -> Vec<Event> {
        self.tokens += delta.tokens.len();
        if let Some(ids) = &mut self.response.output_token_ids {
            ids.extend(delta.tokens.iter().map(|token| token.id));
        }
        if let Some(names) = &self.names {
            let logprobs = delta.tokens.iter().filter_map(|token| ChatLogprob::of(token, names));
            self.pending.extend(logprobs);
        }
        let mut events = Vec::new();
        for segment in delta.segments {
            self.segment(segment, &mut events);
        }
        if delta.finish.is_some() {
            self.finish = delta.finish;
        }
        events
    }

    /// The whole response, and the events up to the one that brings it.
    pub fn finish(mut self, usage: Usage) -> (ResponseShape, Vec<Event>) {
        let mut events = Vec::new();
        let is_cut = self.finish == Some(ChatFinish::Length);
        let says_something = |item: &Item| !matches!(item, Item::Reasoning(_));
        let is_silent = !self.response.output.iter().any(says_something)
            && self.open.as_ref().is_none_or(|open| *open.kind() == ItemKind::Reasoning);
        if is_silent && !is_cut {
            // An output without calls has a text, if an empty one.
            self.open(ItemKind::Message, &mut events);
        }
        if !self.pending.is_empty() && self.is_open(&ItemKind::Message) {
            self.push(ItemKind::Message, String::new(), &mut events);
        }
        let (item, response) = match is_cut {
            true => (ItemStatus::Incomplete, ResponseStatus::Incomplete),
            false => (ItemStatus::Completed, ResponseStatus::Completed),
        };
        self.close(item, &mut events);
        self.response.status = response;
        self.response.incomplete_details =
            is_cut.then_some(IncompleteDetails { reason: "max_output_tokens" });
        self.response.completed_at = (!is_cut).then(unix_seconds);
        self.response.usage = Some(ResponseUsage::new(usage, self.reasoning_tokens));
        (self.response, events)
    }

    /// The response that ends with an error, as far as it is.
    pub fn fail(&mut self, error: &ApiError) -> Event {
        self.close(ItemStatus::Incomplete, &mut Vec::new());
        self.response.status = ResponseStatus::Failed;
        self.response.error = Some(ResponseFailure::from(error));
        response_event("response.failed", self.response.clone())
    }

    fn segment(&mut self, segment: OutputSegment, events: &mut Vec<Event>) {
        if !matches!(segment, OutputSegment::Text(_)) {
            // Tokens of reasoning and calls are not reported.
            self.pending.clear();
        }
        match segment {
            OutputSegment::Reasoning(text) => {
                self.reasoning_tokens = self.tokens;
                self.push(ItemKind::Reasoning, text, events);
            }
            OutputSegment::Text(text) => self.push(ItemKind::Message, text, events),
            OutputSegment::Call { name } => {
                self.open(ItemKind::Call { call_id: ids::tool_call(), name }, events);
            }
            OutputSegment::Arguments(text) => {
                let call = self.open.as_mut().expect("a call comes before its arguments");
                events.push(call.push(text, Vec::new()));
            }
        }
    }

    /// More text of an item of this kind, which is opened if need be.
    fn push(&mut self, kind: ItemKind, text: String, events: &mut Vec<Event>) {
        if !self.is_open(&kind) {
            self.open(kind, events);
        }
        let logprobs = mem::take(&mut self.pending);
        if let Some(open) = &mut self.open {
            events.push(open.push(text, logprobs));
        }
    }

    fn is_open(&self, kind: &ItemKind) -> bool {
        self.open.as_ref().is_some_and(|open| open.kind() == kind)
    }

    fn open(&mut self, kind: ItemKind, events: &mut Vec<Event>) {
        self.close(ItemStatus::Completed, events);
        let item = OpenItem::new(kind, self.response.output.len());
        events.extend(item.added());
        self.open = Some(item);
    }

    fn close(&mut self, status: ItemStatus, events: &mut Vec<Event>) {
        let Some(open) = self.open.take() else { return };
        let (item, done) = open.done(status);
        events.extend(done);
        self.response.output.push(item);
    }
}

pub fn response_event(name: &'static str, response: ResponseShape) -> Event {
    Event { name, body: EventBody::Response { response: Box::new(response) } }
}

#[cfg(test)]
mod tests;
