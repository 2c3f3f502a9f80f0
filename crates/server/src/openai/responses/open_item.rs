//! The item that is being decoded, and the events of its life.

use crate::ids;
use crate::openai::logprobs::ChatLogprob;
use crate::openai::responses::item::{
    CallItem, ContentPart, Item, ItemStatus, MessageItem, ReasoningItem, Role,
};
use crate::openai::responses::stream_event::{Event, EventBody, PartLocation};

pub struct OpenItem {
    id: String,
    /// Its location in the output.
    index: usize,
    kind: ItemKind,
    text: String,
    logprobs: Vec<ChatLogprob>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind {
    Message,
    Reasoning,
    Call { call_id: String, name: String },
}

impl OpenItem {
    pub fn new(kind: ItemKind, index: usize) -> Self {
        let prefix = match kind {
            ItemKind::Message => "msg_",
            ItemKind::Reasoning => "rs_",
            ItemKind::Call { .. } => "fc_",
        };
        let id = ids::unique(prefix);
        Self { id, index, kind, text: String::new(), logprobs: Vec::new() }
    }

    pub fn kind(&self) -> &ItemKind {
        &self.kind
    }

    /// That it is there, with nothing in it.
    pub fn added(&self) -> Vec<Event> {
        let item = self.item(ItemStatus::InProgress, Vec::new());
        let body = EventBody::Item { output_index: self.index, item };
        let item = Event { name: "response.output_item.added", body };
        let part = self.part_event("response.content_part.added");
        [item].into_iter().chain(part).collect()
    }

    /// More of its text.
    pub fn push(&mut self, delta: String, logprobs: Vec<ChatLogprob>) -> Event {
        self.text.push_str(&delta);
        let (location, output_index) = (self.location(), self.index);
        let (name, body) = match self.kind {
            ItemKind::Message => {
                self.logprobs.extend_from_slice(&logprobs);
                let body = EventBody::TextDelta { location, delta, logprobs };
                ("response.output_text.delta", body)
            }
            ItemKind::Reasoning => {
                ("response.reasoning_text.delta", EventBody::ReasoningDelta { location, delta })
            }
            ItemKind::Call { .. } => {
                let item_id = self.id.clone();
                let body = EventBody::ArgumentsDelta { item_id, output_index, delta };
                ("response.function_call_arguments.delta", body)
            }
        };
        Event { name, body }
    }

    /// That nothing more of it comes.
    pub fn done(self, status: ItemStatus) -> (Item, Vec<Event>) {
        let mut events = vec![self.text_done()];
        events.extend(self.part_event("response.content_part.done"));
        let item = self.item(status, self.part().into_iter().collect());
        let body = EventBody::Item { output_index: self.index, item: item.clone() };
        events.push(Event { name: "response.output_item.done", body });
        (item, events)
    }

    fn text_done(&self) -> Event {
        let (location, text) = (self.location(), self.text.clone());
        let (name, body) = match &self.kind {
            ItemKind::Message => {
                let logprobs = self.logprobs.clone();
                ("response.output_text.done", EventBody::TextDone { location, text, logprobs })
            }
            ItemKind::Reasoning => {
                ("response.reasoning_text.done", EventBody::ReasoningDone { location, text })
            }
            ItemKind::Call { name, .. } => {
                let (item_id, output_index) = (location.item_id, self.index);
                let (name, arguments) = (name.clone(), text);
                let body = EventBody::ArgumentsDone { item_id, output_index, name, arguments };
                ("response.function_call_arguments.done", body)
            }
        };
        Event { name, body }
    }

    fn part_event(&self, name: &'static str) -> Option<Event> {
        let (location, part) = (self.location(), self.part()?);
        Some(Event { name, body: EventBody::Part { location, part } })
    }
    /// The part that its text is; a call has none.
    fn part(&self) -> Option<ContentPart> {
        let text = self.text.clone();
        match self.kind {
            ItemKind::Message => {
                let logprobs = self.logprobs.clone();
                Some(ContentPart::Output { text, annotations: Vec::new(), logprobs })
            }
            ItemKind::Reasoning => Some(ContentPart::Reasoning { text }),
            ItemKind::Call { .. } => None,
        }
    }

    fn item(&self, status: ItemStatus, content: Vec<ContentPart>) -> Item {
        let id = self.id.clone();
        match self.kind.clone() {
            ItemKind::Message => {
                Item::Message(MessageItem { id, status, role: Role::Assistant, content })
            }
            ItemKind::Reasoning => {
                Item::Reasoning(ReasoningItem { id, status, summary: Vec::new(), content })
            }
            ItemKind::Call { call_id, name } => {
                let arguments = self.text.clone();
                Item::FunctionCall(CallItem { id, call_id, name, arguments, status })
            }
        }
    }

    fn location(&self) -> PartLocation {
        PartLocation { item_id: self.id.clone(), output_index: self.index, content_index: 0 }
    }
}
