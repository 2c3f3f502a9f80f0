//! The events of a streamed response.

use serde::Serialize;
use utoipa::ToSchema;

use crate::openai::logprobs::ChatLogprob;
use crate::openai::responses::item::{ContentPart, Item};
use crate::openai::responses::response_shape::ResponseShape;

/// An event before it is numbered: its name, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub name: &'static str,
    pub body: EventBody,
}

/// An event as it is sent.
#[derive(Debug, Serialize, ToSchema)]
pub struct StreamEvent {
    /// The event's name: `response.created`, `response.output_text.delta`, …
    pub r#type: &'static str,
    /// Counts the events of this response from 0.
    pub sequence_number: usize,
    #[serde(flatten)]
    pub body: EventBody,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum EventBody {
    /// `response.created`, `.in_progress`, `.completed`, `.incomplete`, `.failed`
    Response {
        /// As far as it is.
        response: Box<ResponseShape>,
    },
    /// `response.output_item.added`, `.done`
    Item {
        /// Which item of the output.
        output_index: usize,
        /// As far as it is.
        item: Item,
    },
    /// `response.content_part.added`, `.done`
    Part {
        #[serde(flatten)]
        location: PartLocation,
        /// As far as it is.
        part: ContentPart,
    },
    /// `response.output_text.delta`
    TextDelta {
        #[serde(flatten)]
        location: PartLocation,
        /// More text.
        delta: String,
        /// Of its tokens, if requested.
        logprobs: Vec<ChatLogprob>,
    },
    /// `response.output_text.done`
    TextDone {
        #[serde(flatten)]
        location: PartLocation,
        /// The whole text.
        text: String,
        /// Of its tokens, if requested.
        logprobs: Vec<ChatLogprob>,
    },
    /// `response.reasoning_text.delta`
    ReasoningDelta {
        #[serde(flatten)]
        location: PartLocation,
        /// More text.
        delta: String,
    },
    /// `response.reasoning_text.done`
    ReasoningDone {
        #[serde(flatten)]
        location: PartLocation,
        /// The whole text.
        text: String,
    },
    /// `response.function_call_arguments.delta`
    ArgumentsDelta {
        /// The call's item.
        item_id: String,
        /// Which item of the output.
        output_index: usize,
        /// More of the text of a JSON object.
        delta: String,
    },
    /// `response.function_call_arguments.done`
    ArgumentsDone {
        /// The call's item.
        item_id: String,
        /// Which item of the output.
        output_index: usize,
        /// The function.
        name: String,
        /// The whole text of a JSON object.
        arguments: String,
    },
}

/// Where a part stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PartLocation {
    /// Which item.
    pub item_id: String,
    /// Which item of the output.
    pub output_index: usize,
    /// Which part of the item.
    pub content_index: usize,
}
